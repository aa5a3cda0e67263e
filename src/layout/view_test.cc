#include "layout/view.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "layout/random_views.h"

namespace spyre::layout {
namespace {

bool overlaps_by_counting(const HostView& view) {
  std::vector<int64_t> seen{view.offset}, next;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    next.clear();
    for (int64_t k = 0; k < view.sizes[d]; ++k) {
      for (int64_t o : seen) next.push_back(o + k * view.strides[d]);
    }
    seen.swap(next);
  }
  return std::set<int64_t>(seen.begin(), seen.end()).size() != seen.size();
}

TEST(HostView, ExtentCoversTheLastElement) {
  EXPECT_EQ((HostView{{3, 4}, {10, 1}, 5}.extent()), (std::pair<int64_t, int64_t>{5, 29}));
  EXPECT_EQ((HostView{{3, 0}, {10, 1}, 5}.extent()), (std::pair<int64_t, int64_t>{0, 0}));
  EXPECT_EQ((HostView{{}, {}, 5}.extent()), (std::pair<int64_t, int64_t>{5, 6}));
  EXPECT_EQ(HostView::contiguous({2, 0, 3}).strides, (std::vector<int64_t>{3, 3, 1}));
}

TEST(HostView, SizesBeyond64BitsRaise) {
  EXPECT_THROW(HostView::contiguous({INT64_MAX, 2}), Error);
  EXPECT_THROW(HostView::contiguous({-1}), Error);
  EXPECT_THROW((HostView{{2}, {INT64_MAX}, 1}.check()), Error);
  EXPECT_THROW((HostView{{2}, {1}, -1}.check()), Error);
  HostView{{0, 5}, {INT64_MAX, INT64_MAX}, 0}.check();
}

TEST(WritesOverlap, CommonViews) {
  EXPECT_FALSE(writes_overlap({{3, 4}, {4, 1}, 0}));
  EXPECT_FALSE(writes_overlap({{4, 3}, {1, 4}, 0}));
  EXPECT_FALSE(writes_overlap({{3, 1}, {4, 0}, 0}));
  EXPECT_FALSE(writes_overlap({{0, 5}, {0, 0}, 0}));
  EXPECT_TRUE(writes_overlap({{3, 4}, {0, 1}, 0}));
  EXPECT_TRUE(writes_overlap({{3, 4}, {1, 1}, 0}));
  EXPECT_FALSE(writes_overlap({{2, 2}, {3, 2}, 0}));  // 0 2 3 5: interleaved, apart
  EXPECT_FALSE(writes_overlap({{1 << 20, 1 << 20}, {1 << 20, 1}, 0}));
  EXPECT_TRUE(writes_overlap({{1 << 20, 1 << 20}, {1 << 19, 1}, 0}));
}

TEST(WritesOverlap, RandomViewsByCounting) {
  const uint64_t seed = testing::test_seed(20260106);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  int overlapping = 0;
  for (int i = 0; i < 4000; ++i) {
    HostView view = HostView::contiguous(testing::random_sizes(r, 4, 500));
    const int64_t storage = view.extent().second;
    for (int64_t ops = r.between(0, 4); ops > 0; --ops) testing::random_view_op(r, view, storage);
    if (r.one_in(3)) {
      view = {};
      for (int64_t d = r.between(1, 4); d > 0; --d) {
        view.sizes.push_back(r.between(1, 6));
        view.strides.push_back(r.between(0, 15));
      }
    }
    if (view.numel() > 5000) continue;
    const bool want = overlaps_by_counting(view);
    ASSERT_EQ(writes_overlap(view), want) << view.to_text();
    overlapping += want;
  }
  EXPECT_GT(overlapping, 200);
}

}  // namespace
}  // namespace spyre::layout
