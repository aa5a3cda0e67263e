#include "layout/geometry.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "layout/random_views.h"

namespace spyre::layout {
namespace {

using base::HostType;
using Sizes = std::vector<int64_t>;

constexpr DataFormats dl16 = DataFormats::SEN169_FP16;

// Each storage element has its own place inside the allocation.
void expect_injective(const Geometry& g) {
  std::set<int64_t> places;
  for (int64_t o = 0; o < g.storage_elements; ++o) {
    const int64_t e = g.device_element(o);
    ASSERT_GE(e, 0) << g.to_text();
    ASSERT_LT(e, g.device_elements) << g.to_text() << " o=" << o;
    ASSERT_TRUE(places.insert(e).second) << g.to_text() << " o=" << o;
  }
}

// The place of o, as device coordinates, stands for o by the layout's own rule.
void expect_follows(const Geometry& g, const SpyreTensorLayout& layout) {
  expect_injective(g);
  for (int64_t o = 0; o < g.storage_elements; ++o) {
    int64_t e = g.device_element(o), host = 0;
    for (size_t i = layout.device_size().size(); i-- > 0;) {
      const int64_t c = e % layout.device_size()[i];
      e /= layout.device_size()[i];
      if (layout.stride_map()[i] > 0) {
        host += c * layout.stride_map()[i];
      } else {
        ASSERT_EQ(c, 0) << layout.repr();
      }
    }
    ASSERT_EQ(host, o) << layout.repr() << " " << g.to_text();
  }
}

Geometry of_contiguous(const SpyreTensorLayout& layout, const Sizes& sizes) {
  return Geometry::of(layout, sizes, HostView::contiguous(sizes).strides);
}

Fault fault_of(const SpyreTensorLayout& layout, const Sizes& sizes, const Sizes& strides) {
  try {
    const Geometry g = Geometry::of(layout, sizes, strides);
    ADD_FAILURE() << "accepted as " << g.to_text();
  } catch (const Error& e) {
    if (e.fault() == Fault::user) {
      EXPECT_NE(std::string(e.what()).find("device_size"), std::string::npos) << e.what();
    }
    return e.fault();
  }
  return Fault::system;
}

TEST(Geometry, RowsThatAreNoMultipleOfAStick) {
  const Geometry g = of_contiguous({Sizes{1000, 200}, HostType::f16}, {1000, 200});
  EXPECT_EQ(g.storage_elements, 200000);
  EXPECT_EQ(g.device_elements, 4 * 1000 * 64);
  EXPECT_EQ(g.device_element(0), 0);
  EXPECT_EQ(g.device_element(199), 3 * 64000 + 7);
  EXPECT_EQ(g.device_element(200), 64);
  EXPECT_EQ(g.device_element(3 * 200 + 65), 64000 + 3 * 64 + 1);
}

TEST(Geometry, DefaultOfEachRankFollowsItsLayout) {
  for (const Sizes& sizes :
       {Sizes{}, Sizes{1}, Sizes{60}, Sizes{64}, Sizes{130}, Sizes{5, 1}, Sizes{1, 5}, Sizes{3, 60}, Sizes{3, 64},
        Sizes{64, 1}, Sizes{3, 64, 1}, Sizes{5, 10, 150}, Sizes{2, 3, 40}, Sizes{2, 3, 4, 70}, Sizes{2, 1, 4, 1, 70},
        Sizes{2, 3, 2, 3, 2, 65}, Sizes{2, 2, 2, 2, 2, 2}}) {
    for (HostType type : {HostType::f16, HostType::f32, HostType::i8}) {
      const SpyreTensorLayout layout(sizes, type);
      expect_follows(of_contiguous(layout, sizes), layout);
    }
  }
}

TEST(Geometry, AColumnKeepsOneElementAStick) {
  const Geometry g = of_contiguous({Sizes{64, 1}, HostType::f16}, {64, 1});
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(g.device_element(i), 64 * i);
}

TEST(Geometry, SparseHoldsOneElementAStick) {
  const SpyreTensorLayout layout({5, 7}, {7, 1}, HostType::f16, {0, 1, -1});
  const Geometry g = of_contiguous(layout, {5, 7});
  expect_follows(g, layout);
  for (int64_t o = 0; o < 35; ++o) EXPECT_EQ(g.device_element(o) % 64, 0);
}

TEST(Geometry, StickAlongAnOuterDimension) {
  const SpyreTensorLayout layout({5, 100, 15}, {1500, 15, 1}, HostType::f16, {0, 2, 1});
  expect_follows(of_contiguous(layout, {5, 100, 15}), layout);
}

TEST(Geometry, PaddedSplitAndFoldedDimensions) {
  const auto check = [](const Sizes& device, const Sizes& map, const Sizes& host) {
    const SpyreTensorLayout layout(device, map, dl16);
    expect_follows(of_contiguous(layout, host), layout);
  };
  check({2, 4, 64}, {64, 50, 1}, {4, 50});             // one stick more than the rows need
  check({2, 4, 64}, {64, 64, 1}, {4, 64});             // the same where its step equals the rows'
  check({4, 2, 2, 64}, {32, 64, 128, 1}, {2, 4, 32});  // and where it is a multiple of the rows'
  check({6, 8, 64}, {64, 100, 1}, {4, 100});           // rows padded too
  check({3, 64}, {64, 1}, {3, 50});                    // rows folded into a plain sequence
  check({2, 2, 2, 64}, {100, 50, 64, 1}, {4, 50});     // rows split
  check({2, 3, 2, 64}, {64, 100, 300, 1}, {5, 100});   // rows split with a remainder
}

TEST(Geometry, PaddingLeavesTheHostDimensionsTheirOwn) {
  const Geometry g = of_contiguous({{4, 4, 64}, {64, 50, 1}, dl16}, {4, 50});
  EXPECT_EQ(g.device_element(2 * 50 + 7), 2 * 64 + 7);
}

TEST(Geometry, LayoutsThatLoseOrRepeatElementsRaise) {
  EXPECT_EQ(fault_of({{3, 10, 64}, {64, 200, 1}, dl16}, {10, 200}, {200, 1}), Fault::user);  // too few sticks
  EXPECT_EQ(fault_of({{4, 9, 64}, {64, 200, 1}, dl16}, {10, 200}, {200, 1}), Fault::user);   // too few rows
  EXPECT_EQ(fault_of({{4, 10, 64}, {64, 200, 2}, dl16}, {10, 200}, {200, 1}), Fault::user);  // every second element
  EXPECT_EQ(fault_of({{4, 10, 64}, {64, 0, 1}, dl16}, {10, 200}, {200, 1}), Fault::user);  // rows on top of each other
  EXPECT_EQ(fault_of({{5, 64}, {1, 1}, dl16}, {68}, {1}), Fault::user);                    // two ways to count
  EXPECT_EQ(fault_of({{4, 10, 64}, {64, 199, 1}, dl16}, {10, 200}, {200, 1}), Fault::user);  // a wrong step
  EXPECT_EQ(fault_of({{0, 64}, {64, 1}, dl16}, {10}, {1}), Fault::user);
  EXPECT_EQ(fault_of({{4, 10, 32}, {32, 100, 1}, dl16}, {10, 100}, {100, 1}), Fault::user);  // half a stick
  EXPECT_EQ(fault_of({{4, 2, 64}, {64, 300, 1}, dl16}, {2, 200}, {300, 1}), Fault::user);    // no place for the gap
  EXPECT_EQ(fault_of({{10, 4, 256}, {256, 64, 1}, DataFormats::SENINT4}, {10, 256}, {256, 1}), Fault::unimplemented);
  EXPECT_EQ(fault_of({{10, 3, 2, 64}, {200, 80, 64, 1}, dl16}, {10, 200}, {200, 1}), Fault::unimplemented);
}

TEST(Geometry, GapsBetweenRowsHavePlacesWhenTheLayoutHasThem) {
  const SpyreTensorLayout layout({5, 2, 64}, {64, 300, 1}, dl16);
  const Geometry g = Geometry::of(layout, {2, 200}, {300, 1});
  EXPECT_EQ(g.storage_elements, 500);
  expect_follows(g, layout);
}

TEST(Geometry, CostDoesNotGrowWithSizes) {
  const Sizes sizes{1 << 20, 1 << 20, 100};
  const Geometry g = of_contiguous({sizes, HostType::f16}, sizes);
  EXPECT_EQ(g.storage_elements, (int64_t{1} << 40) * 100);
  EXPECT_LT(g.device_element(g.storage_elements - 1), g.device_elements);
}

TEST(Geometry, EmptyTensors) {
  for (const Sizes& sizes : {Sizes{0}, Sizes{0, 5}, Sizes{5, 0}, Sizes{3, 0, 70}}) {
    const Geometry g = of_contiguous({sizes, HostType::f16}, sizes);
    EXPECT_EQ(g.storage_elements, 0);
    EXPECT_EQ(g.scrambled(1), g);
    g.check();
  }
  EXPECT_EQ(Geometry::linear(base::Format::f32, 0).device_elements, 0);
}

TEST(Geometry, LinearIsStorageOrder) {
  const Geometry g = Geometry::linear(base::Format::f32, 70);
  EXPECT_EQ(g.device_elements, 96);
  for (int64_t o = 0; o < 70; ++o) EXPECT_EQ(g.device_element(o), o);
  EXPECT_EQ(g, of_contiguous({Sizes{70}, HostType::f32}, {70}));
  EXPECT_THROW(Geometry::linear(base::Format::f32, INT64_MAX / 2), Error);
  EXPECT_THROW(Geometry::linear(base::Format::f32, -1), Error);
}

TEST(Geometry, RandomLayoutsFollowTheirRule) {
  const uint64_t seed = testing::test_seed(20260101);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  int accepted = 0, deep = 0;
  for (int i = 0; i < 1500; ++i) {
    const Sizes sizes = testing::random_sizes(r, 6, 2000);
    const Sizes strides = testing::dense_strides(sizes, testing::random_order(r, sizes.size()));
    bool pads_twice = false;
    const SpyreTensorLayout layout = testing::random_explicit(r, sizes, strides, dl16, pads_twice);
    try {
      const Geometry g = Geometry::of(layout, sizes, strides);
      expect_follows(g, layout);
      ++accepted;
    } catch (const Error& e) {
      ASSERT_EQ(e.fault(), Fault::unimplemented) << e.what();
      ASSERT_TRUE(pads_twice) << e.what();
      ++deep;
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 10 * deep);
}

TEST(Geometry, RandomWrongLayoutsNeverLoseElementsSilently) {
  const uint64_t seed = testing::test_seed(20260102);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  for (int i = 0; i < 3000; ++i) {
    const Sizes sizes = testing::random_sizes(r, 3, 400);
    const Sizes strides = testing::dense_strides(sizes, testing::random_order(r, sizes.size()));
    Sizes device, map;
    for (int64_t d = r.between(0, 3); d > 0; --d) {
      device.push_back(r.between(1, 12));
      static constexpr int64_t steps[] = {-1, 1, 2, 3, 5, 7, 8, 32, 50, 64, 65, 100, 128, 200};
      map.push_back(steps[r.below(14)]);
    }
    device.push_back(64);
    map.push_back(r.one_in(2) ? 1 : r.between(1, 5));
    const SpyreTensorLayout layout(device, map, dl16);
    try {
      expect_follows(Geometry::of(layout, sizes, strides), layout);
    } catch (const Error&) {
      continue;
    }
    if (HasFatalFailure()) return;
  }
}

TEST(Geometry, ScrambledMovesSticksAndKeepsLanes) {
  const Geometry g = of_contiguous({Sizes{40, 200}, HostType::f16}, {40, 200});
  int moved = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Geometry s = g.scrambled(seed);
    expect_injective(s);
    EXPECT_EQ(s, g.scrambled(seed));
    EXPECT_EQ(s.storage_elements, g.storage_elements);
    for (int64_t o = 0; o < g.storage_elements; ++o) ASSERT_EQ(s.device_element(o) % 64, g.device_element(o) % 64);
    moved += s.digits != g.digits;
    expect_injective(s.scrambled(seed + 1));
  }
  EXPECT_GT(moved, 30);
}

TEST(Geometry, RandomGeometriesAreInjectiveAndSurviveText) {
  const uint64_t seed = testing::test_seed(20260103);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  for (int i = 0; i < 400; ++i) {
    const testing::Sample s = testing::random_sample(r);
    expect_injective(s.geometry);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(s.geometry.places_are_distinct()) << s.geometry.to_text();
    const Geometry again = Geometry::from_text(s.geometry.to_text());
    ASSERT_EQ(again, s.geometry);
    ASSERT_EQ(again.hash(), s.geometry.hash());
  }
}

TEST(Geometry, SharedPlacesAreNotCalledDistinct) {
  const uint64_t seed = testing::test_seed(20260107);
  SCOPED_TRACE(seed);
  testing::Random r(seed);
  int shared = 0, distinct = 0;
  for (int i = 0; i < 1000; ++i) {
    Geometry g = testing::random_sample(r).geometry;
    if (g.storage_elements == 0) continue;
    Digit& d = g.digits[static_cast<size_t>(r.below(static_cast<int64_t>(g.digits.size())))];
    int64_t* const fields[] = {&d.div1, &d.mod1, &d.div2, &d.mod2, &d.stride};
    int64_t& field = *fields[r.below(5)];
    field = r.one_in(2) ? field + 1 : std::max<int64_t>(1, field / 2);
    std::set<int64_t> places;
    for (int64_t o = 0; o < g.storage_elements; ++o) places.insert(g.device_element(o));
    const bool really = static_cast<int64_t>(places.size()) == g.storage_elements;
    if (g.places_are_distinct()) {
      ASSERT_TRUE(really) << g.to_text();
      ++distinct;
    }
    shared += !really;
  }
  EXPECT_GT(shared, 100);
  EXPECT_GT(distinct, 25);
}

TEST(Geometry, BrokenTextRaises) {
  const std::string good = of_contiguous({Sizes{10, 200}, HostType::f16}, {10, 200}).to_text();
  EXPECT_EQ(good, "geo{dl16 n=2000 d=2560 (1,200,64,4)*640 (200,10,1,10)*64 (1,200,1,64)*1}");
  for (size_t cut = 0; cut < good.size(); ++cut) {
    EXPECT_THROW(Geometry::from_text(good.substr(0, cut)), Error) << cut;
  }
  for (const char* bad :
       {"geo{dl16 n=2000 d=2560 (200,10,1,10)*64 (1,200,1,64)*1} ", "geo{xx n=1 d=64 (1,1,1,1)*1}",
        "geo{dl16 n=2000 d=64 (200,10,1,10)*64 (1,200,1,64)*1}", "geo{dl16 n=1 d=63 (1,1,1,1)*1}",
        "geo{dl16 n=1 d=64 (0,1,1,1)*1}", "geo{dl16 n=1 d=64 (1,1,1,1)*-1}", "geo{dl16 n=1 d=64}",
        "geo{dl16 n=99 d=128 (1,99,1,99)*1}",
        "geo{dl16 n=9223372036854775807 d=64 (1,9223372036854775807,1,9)*4611686018427387904 (1,1,1,1)*1}"}) {
    EXPECT_THROW(Geometry::from_text(bad), Error) << bad;
  }
}

TEST(DefaultPlacement, ContiguousPermutedAndTheRest) {
  const auto placed = [](const Sizes& sizes, const Sizes& strides) {
    return default_placement(sizes, strides, HostType::f16, false);
  };
  EXPECT_EQ(placed({1000, 200}, {200, 1}).layout, SpyreTensorLayout(Sizes{1000, 200}, HostType::f16));
  // A transposed tensor keeps its stick along the dimension with stride 1.
  const DefaultPlacement t = placed({200, 1000}, {1, 200});
  EXPECT_EQ(t.layout, SpyreTensorLayout({200, 1000}, {1, 200}, HostType::f16, {1, 0}));
  EXPECT_EQ(t.geometry, placed({1000, 200}, {200, 1}).geometry);
  // channels_last with one channel or one row: the size-1 dimension is not the stick.
  EXPECT_EQ(placed({2, 8, 1, 16}, {128, 1, 128, 8}).layout.device_size().back(), 64);
  EXPECT_EQ(placed({2, 8, 1, 16}, {128, 1, 1, 8}).geometry.device_elements, 2 * 16 * 64);
  // Strides of size-1 dimensions say nothing.
  EXPECT_EQ(placed({3, 1, 70}, {70, 999, 1}).layout, SpyreTensorLayout(Sizes{3, 1, 70}, HostType::f16));
  // Gaps, zero strides, overlaps.
  EXPECT_EQ(placed({2, 200}, {300, 1}).geometry, Geometry::linear(base::Format::dl16, 500));
  EXPECT_EQ(placed({2, 200}, {300, 1}).layout, SpyreTensorLayout(Sizes{500}, HostType::f16));
  EXPECT_EQ(placed({4, 200}, {0, 1}).geometry, Geometry::linear(base::Format::dl16, 200));
  EXPECT_EQ(placed({10, 5}, {1, 1}).geometry, Geometry::linear(base::Format::dl16, 14));
  EXPECT_EQ(placed({2, 1, 2, 1, 2, 1, 2}, {8, 8, 4, 4, 2, 2, 1}).geometry, Geometry::linear(base::Format::dl16, 16));
  EXPECT_EQ(placed({0, 7}, {1, 1}).geometry.device_elements, 0);
  EXPECT_EQ(placed({}, {}).geometry.device_elements, 64);
  EXPECT_THROW(placed({2, 3}, {3}), Error);
  EXPECT_THROW(placed({2, 3}, {-3, 1}), Error);
}

TEST(DefaultPlacement, IeeeNumericsKeepHalf) {
  const DefaultPlacement p = default_placement({70}, {1}, HostType::f16, true);
  EXPECT_EQ(p.geometry.format, base::Format::f16);
  EXPECT_EQ(p.layout.device_dtype(), DataFormats::SEN169_FP16);
  EXPECT_THROW(default_placement({70}, {1}, HostType::f64, false), Error);
}

}  // namespace
}  // namespace spyre::layout
