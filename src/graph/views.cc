#include "graph/views.h"

#include <algorithm>
#include <numeric>

#include "graph/size_range.h"

namespace spyre::graph {
namespace {

std::ptrdiff_t place(int32_t dim) { return static_cast<std::ptrdiff_t>(dim); }

}  // namespace

Size numel(std::span<const Size> sizes) {
  Size n = 1;
  for (const Size& s : sizes) n = n * s;
  return n;
}

Ref permuted(const Ref& ref, std::span<const int32_t> order) {
  Ref out{ref.value, {}, {}, ref.offset};
  for (int32_t d : order) {
    out.sizes.push_back(ref.sizes[at(d)]);
    out.strides.push_back(ref.strides[at(d)]);
  }
  return out;
}

// The stride of the new dimension is torch's: that of a tensor whose outer dimension it is.
Ref unsqueezed(const Ref& ref, int32_t dim) {
  Ref out = ref;
  const Size stride = at(dim) < ref.sizes.size() ? ref.sizes[at(dim)] * ref.strides[at(dim)] : Size(1);
  out.sizes.insert(out.sizes.begin() + place(dim), Size(1));
  out.strides.insert(out.strides.begin() + place(dim), stride);
  return out;
}

Ref squeezed(const Ref& ref, int32_t dim) {
  Ref out = ref;
  out.sizes.erase(out.sizes.begin() + place(dim));
  out.strides.erase(out.strides.begin() + place(dim));
  return out;
}

Ref sliced(const Ref& ref, int32_t dim, const Size& start, const Size& size, const Size& step) {
  Ref out = ref;
  out.offset = ref.offset + start * ref.strides[at(dim)];
  out.sizes[at(dim)] = size;
  out.strides[at(dim)] = ref.strides[at(dim)] * step;
  return out;
}

Ref selected(const Ref& ref, int32_t dim, const Size& index) { return squeezed(sliced(ref, dim, index, 1), dim); }

std::optional<Ref> expanded(const Ref& ref, std::span<const Size> sizes) {
  if (sizes.size() < ref.sizes.size()) return std::nullopt;
  const size_t lead = sizes.size() - ref.sizes.size();
  Ref out{ref.value, {sizes.begin(), sizes.end()}, std::vector<Size>(sizes.size(), 0), ref.offset};
  for (size_t d = 0; d < ref.sizes.size(); ++d) {
    if (ref.sizes[d] == sizes[lead + d])
      out.strides[lead + d] = ref.strides[d];
    else if (!ref.sizes[d].is(1))
      return std::nullopt;
  }
  return out;
}

// Dimensions that are contiguous to each other form a chunk; new dimensions are taken from the back until they make up
// a chunk.
std::optional<std::vector<Size>> view_strides(const Ref& ref, std::span<const Size> sizes) {
  std::vector<Size> out(sizes.size());
  if (numel(ref.sizes).is(0)) return contiguous(sizes);
  size_t next = sizes.size();
  const auto take = [&](const Size& count, const Size& stride) {
    Size taken = 1;
    while (!(taken == count)) {
      if (next == 0) return false;
      --next;
      out[next] = stride * taken;
      taken = taken * sizes[next];
    }
    return true;
  };
  Size chunk = 1, stride = 1;
  bool open = false;
  for (size_t d = ref.sizes.size(); d-- > 0;) {
    if (ref.sizes[d].is(1)) continue;
    if (open && ref.strides[d] == chunk * stride) {
      chunk = chunk * ref.sizes[d];
      continue;
    }
    if (open && !take(chunk, stride)) return std::nullopt;
    chunk = ref.sizes[d];
    stride = ref.strides[d];
    open = true;
  }
  if (open && !take(chunk, stride)) return std::nullopt;
  while (next > 0) {  // what is left has size 1
    --next;
    if (!sizes[next].is(1)) return std::nullopt;
    out[next] = next + 1 < sizes.size() ? out[next + 1] * sizes[next + 1] : Size(1);
  }
  return out;
}

Ref unflattened(const Ref& ref, int32_t dim, std::span<const Size> sizes) {
  Ref out = squeezed(ref, dim);
  std::vector<Size> strides = contiguous(sizes);
  for (Size& s : strides) s = s * ref.strides[at(dim)];
  out.sizes.insert(out.sizes.begin() + place(dim), sizes.begin(), sizes.end());
  out.strides.insert(out.strides.begin() + place(dim), strides.begin(), strides.end());
  return out;
}

Ref windows(const Ref& ref, int32_t dim, const Size& size, const Size& step) {
  Ref out = ref;
  out.sizes[at(dim)] = Size::floor_div(ref.sizes[at(dim)] - size, step) + 1;
  out.strides[at(dim)] = ref.strides[at(dim)] * step;
  out.sizes.push_back(size);
  out.strides.push_back(ref.strides[at(dim)]);
  return out;
}

bool is_dense(std::span<const Size> sizes, std::span<const Size> strides) {
  std::vector<bool> used(sizes.size());
  size_t left = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    used[d] = sizes[d].is(1);
    left += used[d] ? 0 : 1;
  }
  for (Size step = 1; left > 0; --left) {
    size_t found = sizes.size();
    for (size_t d = sizes.size(); d-- > 0;) {
      if (!used[d] && strides[d] == step) {
        found = d;
        break;
      }
    }
    if (found == sizes.size()) return false;
    used[found] = true;
    step = step * sizes[found];
  }
  return true;
}

std::vector<Size> strides_in_order(std::span<const Size> sizes, std::span<const int32_t> order) {
  std::vector<Size> strides(sizes.size());
  Size step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[at(order[i])] = step;
    step = step * sizes[at(order[i])];
  }
  return strides;
}

std::optional<std::vector<int32_t>> stride_order(const Ref& ref, std::span<const Symbol> symbols) {
  std::vector<int32_t> order;
  for (size_t d = 0; d < ref.sizes.size(); ++d) {
    size_t at_place = order.size();
    while (at_place > 0) {
      const Size &before = ref.strides[at(order[at_place - 1])], &mine = ref.strides[d];
      if (provably_at_most(mine, before, symbols)) break;
      if (!provably_at_most(before, mine, symbols)) return std::nullopt;
      --at_place;
    }
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(at_place), static_cast<int32_t>(d));
  }
  return order;
}

}  // namespace spyre::graph
