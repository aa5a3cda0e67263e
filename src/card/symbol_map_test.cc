// SymbolMap against the geometry's own arithmetic, on random views of default, linear and scrambled allocations.
#include "card/symbol_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace spyre::card {
namespace {

struct Random {
  explicit Random(uint64_t seed) : engine(seed) {}
  int64_t upto(int64_t n) { return static_cast<int64_t>(engine() % static_cast<uint64_t>(n)); }
  std::mt19937_64 engine;
};

/// A view made by slicing, stepping, expanding, swapping and splitting dimensions of a contiguous tensor.
program::Symbol random_symbol(Random& r) {
  program::Symbol s;
  s.name = "x";
  s.format = r.upto(2) ? Format::dl16 : Format::f32;
  std::vector<int64_t> sizes;
  const int64_t rank = 1 + r.upto(4);
  for (int64_t d = 0; d < rank; ++d) sizes.push_back(1 + r.upto(d + 1 == rank ? 200 : 9));
  s.view = layout::HostView::contiguous(sizes);
  const auto type = s.format == Format::dl16 ? base::HostType::f16 : base::HostType::f32;
  s.geometry = r.upto(4) == 0 ? layout::Geometry::linear(s.format, s.view.numel())
                              : layout::default_placement(sizes, s.view.strides, type, false).geometry;
  if (r.upto(3) == 0) s.geometry = s.geometry.scrambled(r.engine());
  auto& v = s.view;
  for (int64_t changes = r.upto(5); changes > 0; --changes) {
    const auto n = static_cast<int64_t>(v.sizes.size());
    const int64_t d = r.upto(n);
    switch (r.upto(5)) {
      case 0: {
        const int64_t first = r.upto(v.sizes[d]);
        v.offset += first * v.strides[d];
        v.sizes[d] = 1 + r.upto(v.sizes[d] - first);
        break;
      }
      case 1:
        v.sizes[d] = (v.sizes[d] + 1) / 2;
        v.strides[d] *= 2;
        break;
      case 2: {
        const int64_t e = r.upto(n);
        std::swap(v.sizes[d], v.sizes[e]);
        std::swap(v.strides[d], v.strides[e]);
        break;
      }
      case 3:
        if (v.sizes[d] == 1) v.sizes[d] = 3, v.strides[d] = 0;
        break;
      default:
        for (int64_t f : {2, 3, 5})
          if (v.sizes[d] % f == 0 && n < 6) {
            v.sizes.insert(v.sizes.begin() + d + 1, f);
            v.strides.insert(v.strides.begin() + d + 1, v.strides[d]);
            v.strides[d] *= f;
            v.sizes[d] /= f;
            break;
          }
    }
  }
  return s;
}

TEST(SymbolMap, WalksEveryElementOfAClippedBoxOnce) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random r(seed);
  int separable = 0;
  for (int round = 0; round < 3000; ++round) {
    const program::Symbol s = random_symbol(r);
    const SymbolMap map(s);
    separable += map.separable();
    MemBox box;
    box.rank = map.rank();
    int64_t stride = 1;
    for (int d = box.rank - 1; d >= 0; --d) {
      auto& m = box.dims[d];
      m.base = r.upto(s.view.sizes[d] + 2) - 1;
      m.step = 1 + r.upto(4) / 3;
      m.extent = r.upto(s.view.sizes[d] + 3);
      m.stride = stride;
      stride *= m.extent + 1;
    }
    std::map<int64_t, int64_t> expected, got;
    int64_t total = 1;
    for (int d = 0; d < box.rank; ++d) total *= box.dims[d].extent;
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, tile = 0, o = s.view.offset;
      bool in = true;
      for (int d = box.rank - 1; d >= 0; --d) {
        const auto& m = box.dims[d];
        const int64_t p = rest % m.extent, index = m.base + m.step * p;
        rest /= m.extent;
        in = in && index >= 0 && index < s.view.sizes[d];
        tile += p * m.stride;
        o += index * s.view.strides[d];
      }
      if (in) expected[tile] = s.geometry.device_element(o);
    }
    map.walk(box, [&](int64_t tile, int64_t device, int64_t n, bool) {
      for (int64_t k = 0; k < n; ++k)
        ASSERT_TRUE(got.emplace(tile + k * box.dims[box.rank - 1].stride, device + k).second) << "twice";
    });
    ASSERT_EQ(got, expected) << "round " << round << " " << s.view.to_text() << " " << s.geometry.to_text();
  }
  EXPECT_GT(separable, 1000);  // the fast way is the usual way
}

TEST(SymbolMap, PartsRunsAndStepsAreThoseOfTheGeometry) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random r(seed);
  int even = 0, uneven = 0, sticks = 0;
  for (int round = 0; round < 2000; ++round) {
    const program::Symbol s = random_symbol(r);
    const SymbolMap map(s);
    if (!map.separable()) continue;
    SCOPED_TRACE(testing::Message() << "round " << round << " " << s.view.to_text() << " " << s.geometry.to_text());
    const auto element = [&](int d, int64_t i) {
      return s.geometry.device_element(s.view.offset + s.view.strides[d] * i);
    };
    for (int d = 0; d < map.rank(); ++d) {
      const int64_t n = s.view.sizes[d];
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(map.part(d, i) - map.part(d, 0), element(d, i) - element(d, 0)) << d;
      const int64_t first = r.upto(n), last = first + r.upto(n - first);
      bool same = true;
      for (int64_t i = first; i + 1 < last; ++i)
        same = same && element(d, i + 2) - element(d, i + 1) == element(d, i + 1) - element(d, i);
      const int64_t step = last > first ? element(d, first + 1) - element(d, first) : 0;
      ASSERT_EQ(map.even_step(d, first, last), same ? std::max<int64_t>(step, -1) : -1)
          << d << " " << first << ".." << last;
      ++(same ? even : uneven);
    }
    const int last = map.rank() - 1;
    const int64_t n = s.view.sizes[last];
    for (int64_t i = 0; i < n; ++i) {
      int64_t run = 1;
      while (i + run < n && element(last, i + run) == element(last, i) + run) ++run;
      ASSERT_EQ(map.run(i), run) << i;
    }
    if (map.stick_step() < 0) continue;
    ++sticks;
    for (int64_t i = 0; i < n; ++i)
      ASSERT_EQ(map.part(last, i) - map.part(last, 0),
                i / map.stick_lanes() * map.stick_step() + i % map.stick_lanes());
  }
  EXPECT_GT(even, 1000);
  EXPECT_GT(uneven, 100);
  EXPECT_GT(sticks, 100);
}

TEST(SymbolMap, PaddingIsOnlyWhereNoElementLies) {
  program::Symbol s;
  s.format = Format::dl16;
  s.view = layout::HostView::contiguous({4, 70});
  s.geometry = layout::default_placement({4, 70}, s.view.strides, base::HostType::f16, false).geometry;
  EXPECT_EQ(SymbolMap(s).pad_after_last(), 58);
  s.view.sizes[1] = 40;  // the rest of the stick belongs to elements 40..63 of the row
  EXPECT_EQ(SymbolMap(s).pad_after_last(), 0);
}

}  // namespace
}  // namespace spyre::card
