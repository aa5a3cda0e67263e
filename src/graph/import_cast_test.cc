#include <limits>

#include "graph/import_for_test.h"

namespace spyre::graph {
namespace {

TEST(ImportCast, WhatIsNotFiniteBecomesTheMostNegativeInteger) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  Import g;
  const Ref x = g.in(HostType::f32, {5});
  const Ref y = g.op("prims::convert_element_type", {x, HostType::i64});
  EXPECT_EQ(g.run(y, {{2.75, -2.75, inf, -inf, nan}}), (Values{2, -2, -2147483648.0, -2147483648.0, -2147483648.0}));
  EXPECT_THROW(g.run(y, {{0, 0, 3e9, 0, 0}}), Error);  // finite, and not held by the device
}

TEST(ImportScatter, StridedPlacesOfAContiguousTensor) {
  Import g;
  const Ref x = g.in(HostType::f32, {2, 5}), src = g.in(HostType::f32, {2, 2});
  const Ref y = g.op("spyre::strided_scatter", {x, src, Sizes{2, 2}, Sizes{3, 2}, Size(1)});
  EXPECT_EQ(g.run(y, {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {-1, -2, -3, -4}}), (Values{0, -1, 2, -2, -3, 5, -4, 7, 8, 9}));
}

}  // namespace
}  // namespace spyre::graph
