// Random tensors, layouts, views and boxes for the tests of this folder and of those above it. Not used by the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "layout/geometry.h"

namespace spyre::layout::testing {

/// The seed of a random test: its own, or moved by the environment variable SPYRE_TEST_SEED to try others. Printed when
/// the test fails, by SCOPED_TRACE.
inline uint64_t test_seed(uint64_t own) {
  const char* moved = std::getenv("SPYRE_TEST_SEED");
  return own + (moved == nullptr ? 0 : std::strtoull(moved, nullptr, 10));
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool one_in(int64_t n) { return below(n) == 0; }
  uint64_t seed() { return engine_(); }
  template <typename T>
  void shuffle(std::vector<T>& v) {
    for (size_t i = v.size(); i > 1; --i) std::swap(v[i - 1], v[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  std::mt19937_64 engine_;
};

/// Up to `max_rank` sizes, odd ones and sizes near a stick among them, at most `max_numel` elements.
inline std::vector<int64_t> random_sizes(Random& r, int max_rank = 6, int64_t max_numel = 6000) {
  static constexpr int64_t likely[] = {1, 2, 3, 4, 5, 7, 8, 12, 31, 32, 33, 50, 63, 64, 65, 100, 127, 128, 129, 200};
  std::vector<int64_t> sizes;
  int64_t numel = 1;
  const int64_t rank = r.between(0, max_rank);
  for (int64_t d = 0; d < rank; ++d) {
    int64_t n = r.one_in(40) ? 0 : likely[r.below(static_cast<int64_t>(std::size(likely)))];
    if (numel * std::max<int64_t>(n, 1) > max_numel) n = r.between(1, 2);
    numel *= std::max<int64_t>(n, 1);
    sizes.push_back(n);
  }
  r.shuffle(sizes);
  return sizes;
}

/// Strides of a dense tensor whose dimensions lie in memory in `order` (outermost first).
inline std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(sizes[order[i]], 1);
  }
  return strides;
}

inline std::vector<int64_t> random_order(Random& r, size_t rank) {
  std::vector<int64_t> order(rank);
  for (size_t d = 0; d < rank; ++d) order[d] = static_cast<int64_t>(d);
  r.shuffle(order);
  return order;
}

/// An explicit layout of a dense tensor: each dimension kept, split or padded, now and then all folded, in random
/// order, with any dimension along the stick. `pads_twice` tells of layouts Geometry::of may call unimplemented.
inline SpyreTensorLayout random_explicit(Random& r, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                                         DataFormats format, bool& pads_twice) {
  struct Part {
    int64_t size, stride;
  };
  pads_twice = false;
  const int64_t lanes = elems_per_stick(format);
  if (r.one_in(5)) {  // fold everything
    int64_t all = 1;
    for (int64_t n : sizes) all *= n;
    sizes = {all};
    strides = {1};
  }
  std::vector<Part> parts;
  const size_t stick = sizes.empty() ? 0 : static_cast<size_t>(r.below(static_cast<int64_t>(sizes.size())));
  Part lane{lanes, -1};
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t n = sizes[d];
    int padded = 0;
    if (n > 3 && r.one_in(3)) {
      const int64_t f = r.between(2, 5);
      padded += n % f != 0;
      parts.push_back({(n + f - 1) / f, strides[d] * f});
      n = f;
    }
    if (d == stick) {
      padded += n % lanes != 0 && n > lanes;
      parts.push_back({(n + lanes - 1) / lanes + (r.one_in(4) ? 1 : 0), strides[d] * lanes});
      lane.stride = strides[d];
    } else {
      parts.push_back({n + (r.one_in(4) ? r.between(1, 3) : 0), strides[d]});
    }
    pads_twice = pads_twice || padded > 1;
  }
  if (r.one_in(4)) parts.push_back({r.between(1, 2), -1});
  r.shuffle(parts);
  parts.push_back(lane);
  std::vector<int64_t> device, map;
  for (const Part& p : parts) {
    device.push_back(p.size);
    map.push_back(p.stride);
  }
  return SpyreTensorLayout(device, map, format);
}

/// One random view operation: what slice, transpose, expand, unfold, view, diagonal and as_strided do to sizes and
/// strides.
inline void random_view_op(Random& r, HostView& v, int64_t storage_elements) {
  const int64_t rank = static_cast<int64_t>(v.sizes.size());
  const int64_t op = r.below(8);
  if (rank == 0 && op != 4 && op != 7) return;
  const size_t d = rank == 0 ? 0 : static_cast<size_t>(r.below(rank));
  const bool grows = v.numel() > 20000;
  auto insert = [&](size_t at, int64_t size, int64_t stride) {
    v.sizes.insert(v.sizes.begin() + static_cast<std::ptrdiff_t>(at), size);
    v.strides.insert(v.strides.begin() + static_cast<std::ptrdiff_t>(at), stride);
  };
  auto erase = [&](size_t at) {
    v.sizes.erase(v.sizes.begin() + static_cast<std::ptrdiff_t>(at));
    v.strides.erase(v.strides.begin() + static_cast<std::ptrdiff_t>(at));
  };
  switch (op) {
    case 0:
    case 1: {  // slice
      if (v.sizes[d] == 0) return;
      const int64_t start = r.below(v.sizes[d]), step = r.one_in(2) ? 1 : r.between(1, 5);
      const int64_t most = (v.sizes[d] - 1 - start) / step + 1;
      const int64_t size = r.one_in(30) ? 0 : r.between(1, most);
      v.offset += start * v.strides[d];
      v.sizes[d] = size;
      v.strides[d] *= step;
      return;
    }
    case 2: {  // transpose
      const size_t e = static_cast<size_t>(r.below(rank));
      std::swap(v.sizes[d], v.sizes[e]);
      std::swap(v.strides[d], v.strides[e]);
      return;
    }
    case 3:  // expand
      if (v.sizes[d] == 1 && !grows) {
        v.sizes[d] = r.between(1, 5);
        v.strides[d] = 0;
      }
      return;
    case 4:  // unsqueeze
      if (rank < 6) insert(static_cast<size_t>(r.below(rank + 1)), 1, r.between(0, 9));
      return;
    case 5: {  // unfold or diagonal
      if (rank < 6 && r.one_in(2)) {
        if (v.sizes[d] < 2 || grows) return;
        const int64_t size = r.between(1, std::min<int64_t>(v.sizes[d], 9)), step = r.between(1, 4);
        insert(v.sizes.size(), size, v.strides[d]);
        v.sizes[d] = (v.sizes[d] - size) / step + 1;
        v.strides[d] *= step;
      } else if (rank >= 2) {
        const size_t e = (d + 1) % static_cast<size_t>(rank);
        const int64_t size = std::min(v.sizes[d], v.sizes[e]), stride = v.strides[d] + v.strides[e];
        erase(std::max(d, e));
        erase(std::min(d, e));
        insert(v.sizes.size(), size, stride);
      }
      return;
    }
    case 6: {  // view: merge two dimensions or split one
      if (d + 1 < v.sizes.size() && v.strides[d] == v.strides[d + 1] * v.sizes[d + 1]) {
        v.sizes[d + 1] *= v.sizes[d];
        erase(d);
      } else if (rank < 6) {
        for (int64_t f : {2, 3, 4, 5, 8, 10}) {
          if (v.sizes[d] > 0 && v.sizes[d] % f == 0 && r.one_in(2)) {
            insert(d + 1, f, v.strides[d]);
            v.sizes[d] /= f;
            v.strides[d] *= f;
            return;
          }
        }
      }
      return;
    }
    default: {  // as_strided
      if (!r.one_in(4) || storage_elements == 0) return;
      v = HostView{};
      v.offset = r.below(storage_elements);
      int64_t left = storage_elements - 1 - v.offset;
      for (int64_t i = r.between(0, 3); i > 0; --i) {
        const int64_t stride = r.one_in(3) ? 1 : r.between(0, 40);
        const int64_t most = stride == 0 ? 3 : std::min<int64_t>(left / stride, 70);
        const int64_t size = r.between(1, most + 1);
        insert(static_cast<size_t>(r.below(static_cast<int64_t>(v.sizes.size()) + 1)), size, stride);
        left -= (size - 1) * stride;
      }
      return;
    }
  }
}

inline Box random_box(Random& r, const HostView& v) {
  Box box = Box::whole(v);
  if (r.one_in(3)) return box;
  const bool steps = r.one_in(3);
  if (steps) box.step.assign(v.sizes.size(), 1);
  for (size_t d = 0; d < v.sizes.size(); ++d) {
    if (v.sizes[d] == 0) continue;
    if (r.one_in(3)) continue;
    box.start[d] = r.below(v.sizes[d]);
    const int64_t step = steps ? r.between(1, 3) : 1;
    if (steps) box.step[d] = step;
    box.size[d] = r.one_in(40) ? 0 : r.between(1, (v.sizes[d] - 1 - box.start[d]) / step + 1);
  }
  return box;
}

/// A random tensor with a random kind of geometry.
struct Sample {
  HostView tensor;
  Geometry geometry;
};

inline Sample random_sample(Random& r) {
  static constexpr base::HostType types[] = {base::HostType::f16, base::HostType::f32, base::HostType::i8};
  while (true) {
    const base::HostType type = types[r.below(3)];
    const std::vector<int64_t> sizes = random_sizes(r);
    const std::vector<int64_t> order = random_order(r, sizes.size());
    Sample s;
    s.tensor = HostView::contiguous(sizes);
    switch (r.below(5)) {
      case 0:
        s.geometry = default_placement(sizes, s.tensor.strides, type, false).geometry;
        break;
      case 1:
        s.tensor.strides = dense_strides(sizes, order);
        s.geometry = default_placement(sizes, s.tensor.strides, type, false).geometry;
        break;
      case 2:
        s.geometry = Geometry::linear(base::device_format(type), s.tensor.extent().second);
        break;
      case 3: {
        std::vector<int64_t> dims = order;
        if (r.one_in(4)) dims.push_back(-1);
        s.geometry = Geometry::of(SpyreTensorLayout(sizes, s.tensor.strides, type, dims), sizes, s.tensor.strides);
        break;
      }
      default: {
        s.tensor.strides = dense_strides(sizes, order);
        bool pads_twice = false;
        const SpyreTensorLayout layout = random_explicit(r, sizes, s.tensor.strides, data_format_of(type), pads_twice);
        if (pads_twice) continue;
        s.geometry = Geometry::of(layout, sizes, s.tensor.strides);
        break;
      }
    }
    if (r.one_in(3)) s.geometry = s.geometry.scrambled(r.seed());
    return s;
  }
}

}  // namespace spyre::layout::testing
