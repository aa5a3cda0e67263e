// Common axes: refinement, links through values, folds, merging, and what has none.
#include "plan/axes.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace spyre::plan {
namespace {

using graph::Graph;
using graph::Id;
using graph::parse;

std::vector<Home> homes(const Graph& g) { return std::vector<Home>(g.values.size()); }
std::vector<Id> all_nodes(const Graph& g) {
  std::vector<Id> ids;
  for (Id n = 0; n < static_cast<Id>(g.nodes.size()); ++n) ids.push_back(n);
  return ids;
}
std::optional<Axes> axes_of(const Graph& g) { return common_axes(g, all_nodes(g), homes(g)); }

using Strides = std::vector<int64_t>;

TEST(Axes, ContiguousMapsAreOneAxis) {
  const Graph g = parse(R"(
input v0 f16 [4:32, 8:4, 4:1]
v1 f16 [4:32, 8:4, 4:1] = map [4, 8, 4] loads(v0[4:32, 8:4, 4:1]) value(exp(l0))
v2 f16 [32:4, 4:1] = map [32, 4] loads(v1[32:4, 4:1]) value(neg(l0))
output v2[32:4, 4:1]
)");
  const auto axes = axes_of(g);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({128}));
  EXPECT_TRUE(axes->nodes[1].reads[0].internal);
  EXPECT_FALSE(axes->nodes[0].reads[0].internal);
}

TEST(Axes, LayerNormShape) {
  const Graph g = parse(R"(
input v0 f16 [8:1024, 128:8, 8:1]
input v1 f16 [8:1]
v2 f32 [8:128, 128:1], v3 f32 [8:128, 128:1], v4 f32 [8:128, 128:1] = reduce welford [8, 128, 8] over(2) loads(v0[8:1024, 128:8, 8:1]) value(l0)
v5 f32 [8:128, 128:1, 1:1] = map [8, 128, 1] loads(v3[8:128, 128:1, 1:1], v4[8:128, 128:1, 1:1]) value(rsqrt(div(l0, l1)))
v6 f16 [1024:8, 8:1] = map [1024, 8] loads(v0[1024:8, 8:1], v2[1024:1, 8:0], v5[1024:1, 8:0], v1[1024:0, 8:1]) value(fma(sub(l0, l1), l2, l3))
output v6[1024:8, 8:1]
)");
  const auto axes = axes_of(g);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({1024, 8}));
  EXPECT_EQ(axes->nodes[0].reduced, std::vector<bool>({false, true}));
  EXPECT_EQ(axes->nodes[1].has, std::vector<bool>({true, false}));
  EXPECT_EQ(axes->nodes[2].reads[3].strides, Strides({0, 1}));
  EXPECT_TRUE(axes->nodes[2].reads[1].internal);
  EXPECT_EQ(axes->nodes[2].reads[2].strides, Strides({1, 0}));
}

TEST(Axes, SoftmaxOverRowsOfDifferentTensorsIsLinkedByItsSpace) {
  const Graph g = parse(R"(
input v0 f16 [64:16, 16:1]
input v1 f16 [64:16, 16:1]
v2 f32 [64:1] = reduce max [64, 16] over(1) loads(v0[64:16, 16:1]) value(l0)
v3 f16 [64:16, 16:1] = map [64, 16] loads(v1[64:16, 16:1], v2[64:1, 16:0]) value(sub(l0, l1))
output v3[64:16, 16:1]
)");
  const auto axes = axes_of(g);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({64, 16}));
}

TEST(Axes, APermutedReaderFindsItsAxes) {
  const Graph g = parse(R"(
input v0 f16 [8:16, 16:1]
v1 f16 [8:16, 16:1] = map [8, 16] loads(v0[8:16, 16:1]) value(l0)
v2 f16 [16:8, 8:1] = map [16, 8] loads(v1[16:1, 8:16]) value(l0)
output v2[16:8, 8:1]
)");
  const auto axes = axes_of(g);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({8, 16}));
  EXPECT_EQ(axes->nodes[1].results[0].strides, Strides({1, 8}));
  EXPECT_EQ(axes->nodes[1].reads[0].strides, Strides({16, 1}));
}

TEST(Axes, HalfAProducerIsAnotherPoint) {
  const Graph g = parse(R"(
input v0 f16 [8:16, 16:1]
v1 f16 [8:16, 16:1] = map [8, 16] loads(v0[8:16, 16:1]) value(l0)
v2 f16 [8:8, 8:1] = map [8, 8] loads(v1[8:16, 8:1]) value(l0)
output v2[8:8, 8:1]
)");
  EXPECT_FALSE(axes_of(g));
}

TEST(Axes, AValueAndItsTransposeAreTwoPoints) {
  const Graph g = parse(R"(
input v0 f16 [8:8, 8:1]
v1 f16 [8:8, 8:1] = map [8, 8] loads(v0[8:8, 8:1]) value(l0)
v2 f16 [8:8, 8:1] = map [8, 8] loads(v1[8:8, 8:1], v1[8:1, 8:8]) value(add(l0, l1))
output v2[8:8, 8:1]
)");
  EXPECT_FALSE(axes_of(g));
}

TEST(Axes, IotaKeepsItsDimension) {
  const Graph g = parse(R"(
v0 i32 [4:32, 8:4, 4:1] = map [4, 8, 4] loads() value(iota(1))
output v0[4:32, 8:4, 4:1]
)");
  const auto axes = axes_of(g);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({4, 8, 4}));
  EXPECT_EQ(axes->nodes[0].dims[1], std::vector<int>({1}));
}

TEST(Axes, FoldedPermutationSplitsADimension) {
  // v1 = v0 [4, 3, 5, 6] permuted to [4, 5, 3, 6]; the reader sees its rows as [20, 18].
  const Graph g = parse(R"(
input v0 f16 [4:90, 3:30, 5:6, 6:1]
v1 f16 [4:90, 5:18, 3:6, 6:1] = map [4, 5, 3, 6] loads(v0[4:90, 5:6, 3:30, 6:1]) value(l0)
v2 f16 [20:18, 18:1] = map [20, 18] loads(v1[20:18, 18:1]) value(exp(l0))
output v2[20:18, 18:1]
)");
  auto h = homes(g);
  h[1].kind = Home::Kind::folded;
  h[1].through = std::get<graph::Map>(g.nodes[0].kind).loads[0].ref;
  const std::vector<Id> reader = {1};
  const auto axes = common_axes(g, reader, h);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({4, 5, 3, 6}));
  EXPECT_EQ(axes->nodes[0].reads[0].value, 0);
  EXPECT_EQ(axes->nodes[0].reads[0].strides, Strides({90, 6, 30, 1}));
  EXPECT_EQ(axes->nodes[0].results[0].strides, Strides({90, 18, 6, 1}));
  EXPECT_THROW(resolve(std::get<graph::Map>(g.nodes[1].kind).loads[0].ref, g, h), Error);
  EXPECT_EQ(refine(std::get<graph::Map>(g.nodes[1].kind).loads[0].ref, g, h)->sizes.size(), 4u);
}

TEST(Axes, FoldedSliceAndFlip) {
  const Graph g = parse(R"(
input v0 f16 [10:7, 7:1]
v1 f16 [4:3, 3:1] = map [4, 3] loads(v0[4:14, 3:2 @ 7]) value(l0)
v2 f16 [4:3, 3:1] = map [4, 3] loads(v1[4:-3, 3:-1 @ 11]) value(exp(l0))
output v2[4:3, 3:1]
)");
  auto h = homes(g);
  h[1].kind = Home::Kind::folded;
  h[1].through = std::get<graph::Map>(g.nodes[0].kind).loads[0].ref;
  const auto axes = common_axes(g, std::vector<Id>{1}, h);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->nodes[0].reads[0].strides, Strides({-14, -2}));
  EXPECT_EQ(axes->nodes[0].reads[0].offset, 7 + 3 * 14 + 2 * 2);
}

TEST(Axes, GatherThroughAFold) {
  const Graph g = parse(R"(
input v0 f16 [5:70, 10:7, 7:1]
input v1 i64 [4:1]
v2 f16 [10:35, 5:7, 7:1] = map [10, 5, 7] loads(v0[10:7, 5:70, 7:1]) value(l0)
v3 f16 [4:35, 35:1] = map [4, 35] loads(v1[4:1, 35:0], v2[4:0, 35:1] gather(l0, 10, 35, trap)) value(l1)
output v3[4:35, 35:1]
)");
  auto h = homes(g);
  h[2].kind = Home::Kind::folded;
  h[2].through = std::get<graph::Map>(g.nodes[0].kind).loads[0].ref;
  const auto axes = common_axes(g, std::vector<Id>{1}, h);
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({4, 5, 7}));
  EXPECT_EQ(axes->nodes[0].reads[1].gathers, Strides({7}));
  EXPECT_EQ(axes->nodes[0].reads[1].strides, Strides({0, 70, 1}));
}

TEST(Axes, ContractRoles) {
  const Graph g = parse(R"(
input v0 f16 [6:8, 8:1]
input v1 f16 [10:8, 8:1]
v2 f16 [6:10, 10:1] = contract [6:m, 10:n, 8:k] a(v0[6:8, 10:0, 8:1]) b(v1[6:0, 10:8, 8:1])
v3 f16 [60:1] = map [60] loads(v2[60:1]) value(exp(l0))
output v3[60:1]
)");
  const auto axes = axes_of(g);
  ASSERT_TRUE(axes);
  using R = graph::Contract::Role;
  EXPECT_EQ(axes->sizes, Strides({6, 10, 8}));
  EXPECT_EQ(axes->roles, std::vector<R>({R::m, R::n, R::k}));
  EXPECT_EQ(axes->nodes[1].has, std::vector<bool>({true, true, false}));
}

TEST(Axes, AnEmptySpaceStandsAlone) {
  const Graph g = parse(R"(
input v0 f16 [4:1, 0:1]
v1 f32 [4:1] = reduce sum [4, 0] over(1) loads(v0[4:1, 0:1]) value(l0)
v2 f32 [4:1] = map [4] loads(v1[4:1]) value(neg(l0))
output v2[4:1]
)");
  EXPECT_FALSE(axes_of(g));
  const auto axes = common_axes(g, std::vector<Id>{0}, homes(g));
  ASSERT_TRUE(axes);
  EXPECT_EQ(axes->sizes, Strides({4, 0}));
}

}  // namespace
}  // namespace spyre::plan
