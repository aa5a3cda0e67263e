// placements(): where a temp may lie.
#include "plan/placements.h"

#include <gtest/gtest.h>

#include <numeric>

namespace spyre::plan {
namespace {

using graph::HostType;

graph::Value value(std::vector<graph::Size> sizes, std::vector<graph::Size> strides, HostType type = HostType::f16) {
  graph::Value v;
  v.type = type;
  v.sizes = std::move(sizes);
  v.strides = std::move(strides);
  return v;
}

/// Sticks that follow each other in memory when an index along `stride` goes from 0 to `size`.
int64_t run(const layout::Geometry& geometry, int64_t stride, int64_t size) {
  const int64_t lanes = base::elements_per_stick(geometry.format);
  int64_t n = 1;
  while (n < size && geometry.device_element(n * stride) == n * lanes) ++n;
  return n;
}

TEST(Placements, RowsOfBatchesFollowEachOther) {
  const graph::Value v = value({8, 128, 384}, {49152, 384, 1});
  const auto all = placements(v, false, 1 << 28);
  EXPECT_EQ(run(all.front(), 384, 1024), 1024) << all.front().to_text();
  // Row after row, and as a tensor of the launch.
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const auto& g) { return run(g, 64, 6144) == 6144; }));
  EXPECT_EQ(all.back(), layout::default_placement({8, 128, 384}, {49152, 384, 1}, HostType::f16, false).geometry);
}

TEST(Placements, PartsOfLargeValuesAreTogether) {
  const auto all = placements(value({8, 128, 384}, {49152, 384, 1}), false, 1 << 19);
  EXPECT_EQ(run(all.front(), 64, 6144), 6144) << all.front().to_text();
}

TEST(Placements, ShortHeadsFillSticksFirst) {
  const auto all = placements(value({8, 12, 128, 32}, {49152, 32, 384, 1}), false, 1 << 28);
  EXPECT_EQ(all.front().device_elements, 8 * 12 * 128 * 32) << all.front().to_text();
}

TEST(Placements, AllHaveAPlaceForEveryElement) {
  for (const HostType type : {HostType::f16, HostType::f32, HostType::i64}) {
    for (const auto& v :
         {value({5}, {1}, type), value({}, {}, type), value({3, 1, 70}, {70, 70, 1}, type),
          value({2, 3, 5, 7}, {105, 7, 21, 1}, type), value({4, 6}, {1, 4}, type), value({4, 6}, {12, 2}, type)}) {
      const auto all = placements(v, false, 1 << 28);
      ASSERT_FALSE(all.empty());
      int64_t last = 0;
      for (size_t d = 0; d < v.sizes.size(); ++d) last += (graph::number(v.sizes[d]) - 1) * graph::number(v.strides[d]);
      for (const layout::Geometry& g : all) {
        g.check();
        EXPECT_TRUE(g.places_are_distinct()) << g.to_text();
        EXPECT_GT(g.storage_elements, last) << g.to_text();
      }
    }
  }
}

}  // namespace
}  // namespace spyre::plan
