#include "layout/access.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "layout/random_views.h"

namespace spyre::layout {
namespace {

using base::HostType;
using Sizes = std::vector<int64_t>;

// The place of every box element, one by one through the geometry itself.
std::vector<int64_t> places_of(const Access& a, const Box& box) {
  std::vector<int64_t> places;
  const size_t rank = box.size.size();
  if (box.numel() == 0) return places;
  Sizes index(rank, 0);
  while (true) {
    int64_t o = a.view().offset;
    for (size_t d = 0; d < rank; ++d) {
      o += a.view().strides[d] * (box.start[d] + index[d] * (box.step.empty() ? 1 : box.step[d]));
    }
    places.push_back(a.geometry().device_element(o));
    size_t d = rank;
    while (d-- > 0) {
      if (++index[d] < box.size[d]) break;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return places;
  }
}

std::string describe(const Access& a, const Box& box) {
  std::string text = a.view().to_text() + " in " + a.geometry().to_text() + " box";
  for (size_t d = 0; d < box.size.size(); ++d) {
    text += fmt::format(" {}+{}x{}", box.start[d], box.size[d], box.step.empty() ? 1 : box.step[d]);
  }
  return text + (a.separable() ? " separable" : " coupled");
}

void expect_walks_right(const Access& a, const Box& box) {
  SCOPED_TRACE(describe(a, box));
  const std::vector<int64_t> want = places_of(a, box);
  const int64_t n = static_cast<int64_t>(want.size());
  const int64_t lanes = base::elements_per_stick(a.geometry().format);
  const int64_t row = box.size.empty() ? 1 : std::max<int64_t>(box.size.back(), 1);

  int64_t next = 0, run_count = 0;
  std::set<int64_t> sticks;
  a.for_each_run(box, [&](const Run& run) {
    ASSERT_EQ(run.box_index, next);
    ASSERT_GT(run.count, 0);
    ASSERT_LE(next + run.count, n);
    ASSERT_EQ(run.device_element / lanes, (run.device_element + run.count - 1) / lanes) << "crosses a stick";
    ASSERT_EQ(run.box_index / row, (run.box_index + run.count - 1) / row) << "crosses a row";
    for (int64_t i = 0; i < run.count; ++i) ASSERT_EQ(run.device_element + i, want[next + i]) << next + i;
    next += run.count;
    ++run_count;
    sticks.insert(run.device_element / lanes);
  });
  ASSERT_EQ(next, n);

  for (bool across : {false, true}) {
    next = 0;
    a.for_each_strip(box, across, [&](const Strip& s) {
      ASSERT_EQ(s.box_index, next);
      ASSERT_GT(s.count, 0);
      ASSERT_LE(next + s.count, n);
      if (!across) {
        ASSERT_EQ(s.box_index / row, (s.box_index + s.count - 1) / row);
      }
      for (int64_t i = 0; i < s.count; ++i) ASSERT_EQ(s.device_element + i * s.device_step, want[next + i]);
      next += s.count;
    });
    ASSERT_EQ(next, n);
  }

  std::vector<int> seen(want.size(), 0);
  a.for_each_patch(box, [&](const Patch& p) {
    for (int64_t r = 0; r < p.rows; ++r) {
      for (int64_t i = 0; i < p.count; ++i) {
        const int64_t at = p.box_index + r * p.box_row_step + i;
        ASSERT_LT(at, n);
        ASSERT_EQ(p.device_element + r * p.device_row_step + i * p.device_step, want[at]);
        ++seen[at];
      }
    }
  });
  for (int count : seen) ASSERT_EQ(count, 1);

  int64_t first = -1;
  if (a.contiguous_block(box, first)) {
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(want[i], first + i);
  }

  const auto [low, high] = a.device_extent(box);
  const Access::Traffic traffic = a.traffic(box);
  if (n == 0) {
    EXPECT_EQ(low, 0);
    EXPECT_EQ(high, 0);
    EXPECT_EQ(traffic.sticks, 0);
    EXPECT_EQ(traffic.runs, 0);
    return;
  }
  const auto [least, greatest] = std::minmax_element(want.begin(), want.end());
  if (a.separable() && std::all_of(box.size.begin(), box.size.end(), [](int64_t k) { return k <= 4096; })) {
    EXPECT_EQ(low, *least);
    EXPECT_EQ(high, *greatest + 1);
  } else {
    EXPECT_LE(low, *least);
    EXPECT_GE(high, *greatest + 1);
    EXPECT_GE(low, 0);
    EXPECT_LE(high, a.geometry().device_elements);
  }
  if (traffic.exact) {
    EXPECT_EQ(traffic.sticks, static_cast<int64_t>(sticks.size()));
    EXPECT_EQ(traffic.runs, run_count);
  } else {
    EXPECT_GE(traffic.sticks, static_cast<int64_t>(sticks.size()));
    EXPECT_GE(traffic.runs, run_count);
  }
}

Geometry default_geometry(const Sizes& sizes, HostType type = HostType::f16) {
  return default_placement(sizes, HostView::contiguous(sizes).strides, type, false).geometry;
}

int64_t count_runs(const Access& a, const Box& box) {
  std::vector<layout::Run> runs;
  a.runs(box, runs);
  return static_cast<int64_t>(runs.size());
}

TEST(Access, CommonViewsWalkRightAndFast) {
  const Geometry g = default_geometry({100, 200});
  const std::map<std::string, HostView> views = {
      {"whole", {{100, 200}, {200, 1}, 0}},
      {"transposed", {{200, 100}, {1, 200}, 0}},
      {"rows", {{40, 200}, {200, 1}, 600}},
      {"odd columns", {{100, 130}, {200, 1}, 7}},
      {"every second column", {{100, 65}, {200, 2}, 3}},
      {"every third row", {{33, 200}, {600, 1}, 200}},
      {"expanded", {{100, 3, 200}, {200, 0, 1}, 0}},
      {"a column, expanded", {{100, 5}, {200, 0}, 9}},
      {"heads", {{100, 4, 50}, {200, 50, 1}, 0}},
      {"heads first", {{4, 100, 50}, {50, 200, 1}, 0}},
      {"one element", {{}, {}, 777}},
      {"windows of rows", {{30, 3, 200}, {600, 200, 1}, 0}},
  };
  for (const auto& [name, view] : views) {
    SCOPED_TRACE(name);
    const Access a(view, g);
    EXPECT_TRUE(a.separable() || name == "heads" || name == "heads first");
    expect_walks_right(a, Box::whole(view));
  }
  EXPECT_TRUE(Access(views.at("whole"), g).sticks_along_last());
  EXPECT_TRUE(Access(views.at("odd columns"), g).sticks_along_last());
  EXPECT_FALSE(Access(views.at("transposed"), g).sticks_along_last());
  EXPECT_FALSE(Access(views.at("every second column"), g).sticks_along_last());
  EXPECT_FALSE(Access(views.at("a column, expanded"), g).sticks_along_last());
}

TEST(Access, FlatViewOfPaddedRowsIsWalkedNotGuessed) {
  const Geometry g = default_geometry({50, 200});
  const HostView flat{{9000}, {1}, 500};
  expect_walks_right(Access(flat, g), Box::whole(flat));
  const HostView halves{{100, 100}, {100, 1}, 0};
  const Access a(halves, g);
  EXPECT_FALSE(a.separable());
  expect_walks_right(a, Box::whole(halves));
  const HostView overlap{{300, 64}, {7, 1}, 3};
  expect_walks_right(Access(overlap, g), Box::whole(overlap));
}

TEST(Access, LongRowsAreCutIntoPieces) {
  const int64_t n = 100000;
  const Geometry g = default_geometry({2, n});
  for (const HostView& view : {HostView{{2, n}, {n, 1}, 0}, HostView{{2 * n - 5}, {1}, 5}, HostView{{n}, {2}, 1}}) {
    expect_walks_right(Access(view, g), Box::whole(view));
  }
}

TEST(Access, RunsAreWholeSticksWhereTheyCanBe) {
  const Geometry g = default_geometry({100, 256});
  const HostView view{{100, 256}, {256, 1}, 0};
  const Access a(view, g);
  EXPECT_EQ(count_runs(a, Box::whole(view)), 400);
  EXPECT_EQ(count_runs(a, {{0, 32}, {100, 64}, {}}), 200);
}

TEST(Access, WholeTensorsInStorageOrderAreOneBlock) {
  int64_t first = -1;
  const HostView row = HostView::contiguous({10, 20, 30});
  EXPECT_TRUE(Access(row, Geometry::linear(base::Format::f32, 6000)).contiguous_block(Box::whole(row), first));
  EXPECT_EQ(first, 0);
  const HostView matrix = HostView::contiguous({100, 200});
  const Access a(matrix, default_geometry({100, 200}));
  EXPECT_FALSE(a.contiguous_block(Box::whole(matrix), first));
  EXPECT_TRUE(a.contiguous_block({{10, 64}, {50, 64}, {}}, first));  // one column of sticks
  EXPECT_EQ(first, 6400 + 640);
}

TEST(Access, AMatrixIsOnePatchPerColumnOfSticks) {
  const HostView matrix = HostView::contiguous({100, 200});
  const Access a(matrix, default_geometry({100, 200}));
  int patches = 0;
  a.for_each_patch(Box::whole(matrix), [&](const Patch& p) {
    EXPECT_EQ(p.rows, 100);
    ++patches;
  });
  EXPECT_EQ(patches, 4);
}

TEST(Access, TrafficOfTilesIsExact) {
  const HostView matrix = HostView::contiguous({1000, 200});
  const Access a(matrix, default_geometry({1000, 200}));
  auto t = a.traffic(Box::whole(matrix));
  EXPECT_TRUE(t.exact);
  EXPECT_EQ(t.sticks, 4000);
  EXPECT_EQ(t.runs, 4000);
  t = a.traffic({{5, 30}, {10, 40}, {}});  // columns 30..69: two sticks a row
  EXPECT_EQ(t.sticks, 20);
  const HostView turned{{200, 1000}, {1, 200}, 0};
  t = Access(turned, default_geometry({1000, 200})).traffic(Box::whole(turned));
  EXPECT_TRUE(t.exact);
  EXPECT_EQ(t.sticks, 4000);
  EXPECT_EQ(t.runs, 200000);
  const HostView wide{{7, 1000, 200}, {0, 200, 1}, 0};  // expand reads the same sticks again
  t = Access(wide, default_geometry({1000, 200})).traffic(Box::whole(wide));
  EXPECT_EQ(t.sticks, 4000);
  EXPECT_EQ(t.runs, 28000);
  const HostView windows{{998, 3, 200}, {200, 200, 1}, 0};  // overlapping windows of rows
  t = Access(windows, default_geometry({1000, 200})).traffic(Box::whole(windows));
  EXPECT_TRUE(t.exact);
  EXPECT_EQ(t.sticks, 4000);
}

TEST(Access, ViewsAndBoxesOutsideRaise) {
  const Geometry g = default_geometry({10, 20});
  EXPECT_THROW(Access({{10, 20}, {20, 1}, 1}, g), Error);
  EXPECT_THROW(Access({{10, 20}, {-20, 1}, 190}, g), Error);
  EXPECT_THROW(Access({{10}, {20, 1}, 0}, g), Error);
  EXPECT_THROW(Access({{2, 2}, {INT64_MAX, 1}, 0}, g), Error);
  const HostView view = HostView::contiguous({10, 20});
  const Access a(view, g);
  std::vector<layout::Run> runs;
  EXPECT_THROW(a.runs({{0, 1}, {10, 20}, {}}, runs), Error);
  EXPECT_THROW(a.runs({{-1, 0}, {1, 1}, {}}, runs), Error);
  EXPECT_THROW(a.runs({{0}, {1}, {}}, runs), Error);
  EXPECT_THROW(a.runs({{0, 0}, {1, 11}, {1, 2}}, runs), Error);
  EXPECT_THROW(a.runs({{0, 0}, {1, 1}, {1, 0}}, runs), Error);
  EXPECT_THROW(a.traffic({{0, 1}, {10, 20}, {}}), Error);
  EXPECT_THROW(a.device_extent({{0, 1}, {10, 20}, {}}), Error);
  EXPECT_THROW(for_each_common_run(a, {{0, 0}, {2, 3}, {}}, a, {{0, 0}, {3, 2}, {}}, [](int64_t, int64_t, int64_t) {}),
               Error);
}

TEST(Access, RandomViewChainsWalkLikeTheirElements) {
  const uint64_t seed = testing::test_seed(20260104);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  int coupled = 0, exact = 0, all = 0;
  for (int i = 0; i < 2000; ++i) {
    const testing::Sample s = testing::random_sample(r);
    HostView view = s.tensor;
    for (int64_t ops = r.between(0, 5); ops > 0; --ops) {
      testing::random_view_op(r, view, s.geometry.storage_elements);
    }
    if (view.numel() > 30000) continue;
    SCOPED_TRACE(i);
    const Access a(view, s.geometry);
    const Box box = testing::random_box(r, view);
    expect_walks_right(a, box);
    if (HasFailure()) return;
    coupled += !a.separable();
    exact += a.traffic(box).exact;
    ++all;
  }
  EXPECT_GT(coupled, all / 50);
  EXPECT_LT(coupled, all / 2);
  EXPECT_GT(exact, all * 8 / 10);
}

TEST(Access, RandomPairsCopyLikeTheirElements) {
  const uint64_t seed = testing::test_seed(20260105);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  for (int i = 0; i < 800; ++i) {
    const testing::Sample s = testing::random_sample(r);
    HostView view = s.tensor;
    for (int64_t ops = r.between(0, 4); ops > 0; --ops) {
      testing::random_view_op(r, view, s.geometry.storage_elements);
    }
    if (view.numel() > 30000) continue;
    const Access src(view, s.geometry);
    const Box box = testing::random_box(r, view);
    const HostView fresh = HostView::contiguous(box.size);
    Geometry g = default_placement(fresh.sizes, fresh.strides, HostType::f32, false).geometry;
    if (r.one_in(2)) g = g.scrambled(r.seed());
    const Access dst(fresh, g);
    const std::vector<int64_t> from = places_of(src, box), to = places_of(dst, Box::whole(fresh));
    size_t at = 0;
    for_each_common_run(src, box, dst, Box::whole(fresh), [&](int64_t a, int64_t b, int64_t count) {
      for (int64_t k = 0; k < count; ++k, ++at) {
        ASSERT_LT(at, from.size());
        ASSERT_EQ(a + k, from[at]) << describe(src, box);
        ASSERT_EQ(b + k, to[at]) << describe(dst, Box::whole(fresh));
      }
    });
    ASSERT_EQ(at, from.size());
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace spyre::layout
