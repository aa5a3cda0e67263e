// prepare(): mutations become copies, empty spaces go away, small constants move into expressions; the numbers stay.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/interpreter.h"
#include "plan/axes.h"
#include "plan/plan.h"

namespace spyre::plan {
namespace {

using graph::Graph;

using graph::Ref;

std::vector<graph::Tensor> inputs_of(const Graph& g) {
  std::vector<graph::Tensor> out;
  for (Id input : g.inputs) {
    int64_t last = 1;
    const graph::Value& v = g.values[static_cast<size_t>(input)];
    for (size_t d = 0; d < v.sizes.size(); ++d) last += (number(v.sizes[d]) - 1) * number(v.strides[d]);
    graph::Tensor t;
    for (int64_t i = 0; i < last; ++i) t.value.push_back(static_cast<double>(i * 7 % 5 - 2));
    out.push_back(std::move(t));
  }
  return out;
}

/// Outputs, then the new values of mutated inputs.
std::vector<std::vector<double>> run(const Graph& g, const std::vector<Ref>& results) {
  const std::vector<graph::Tensor> values = graph::interpret(g, inputs_of(g), {});
  std::vector<std::vector<double>> out;
  for (const Ref& r : results) out.push_back(values[static_cast<size_t>(r.value)].value);
  return out;
}

/// Prepares the graph, and expects the same results of it.
Prepared prepared(const std::string& text) {
  const Graph g = graph::parse(text);
  std::vector<Ref> before = g.outputs;
  for (const auto& m : g.mutations) before.push_back(m.value);
  Prepared p = prepare(g);
  EXPECT_TRUE(p.graph.mutations.empty());
  EXPECT_EQ(p.replaces.size(), p.graph.values.size());
  std::vector<Ref> after = p.graph.outputs;
  for (const auto& m : g.mutations) {
    for (size_t v = 0; v < p.replaces.size(); ++v) {
      if (p.replaces[v] == m.input) after.push_back(graph::whole(p.graph, static_cast<Id>(v)));
    }
  }
  EXPECT_EQ(run(g, before), run(p.graph, after)) << graph::print(p.graph);
  return p;
}

TEST(Prepare, MutationIsACopyAtTheEnd) {
  const Prepared p = prepared(R"(
input v0 f16 [4:1]
v1 f16 [4:1] = map [4] loads(v0[4:1]) value(mul(l0, 3.0))
v2 f16 [4:1] = map [4] loads(v0[4:1], v1[4:1]) value(add(l0, l1))
output v2[4:1]
mutate v0 = v1[4:1]
)");
  ASSERT_EQ(p.graph.nodes.size(), 3u);
  EXPECT_EQ(p.replaces, (std::vector<Id>{none, none, none, 0}));
  EXPECT_EQ(p.graph.values[3].node, 2);
}

TEST(Prepare, SwappedInputsArePutAsideFirst) {
  const Prepared p = prepared(R"(
input v0 f16 [4:1]
input v1 f16 [4:1]
mutate v0 = v1[4:1]
mutate v1 = v0[4:1]
)");
  ASSERT_EQ(p.graph.nodes.size(), 4u);
  EXPECT_EQ(p.replaces, (std::vector<Id>{none, none, none, none, 0, 1}));
}

TEST(Prepare, ConstantsAndIndicesMoveIntoReaders) {
  const Prepared p = prepared(R"(
input v0 f16 [4:6, 6:1]
v1 f16 [] = map [] loads() value(0.1)
v2 i64 [6:1] = map [6] loads() value(iota(0))
v3 b8 [4:6, 6:1] = map [4, 6] loads() value(ge(iota(0), iota(1)))
v4 f16 [4:6, 6:1] = map [4, 6] loads(v0[4:6, 6:1], v1[4:0, 6:0], v2[4:0, 6:-1 @ 5], v3[4:6, 6:1]) value(select(l3, mul(l0, l1), f32(l2)))
v5 f16 [2:6, 2:3, 3:1] = map [2, 2, 3] loads(v3[2:6, 2:3, 3:1 @ 12]) value(select(l0, 1.0, 0.0))
output v4[4:6, 6:1]
output v5[2:6, 2:3, 3:1]
)");
  ASSERT_EQ(p.graph.nodes.size(), 2u);
  const auto& first = std::get<graph::Map>(p.graph.nodes[0].kind);
  EXPECT_EQ(first.loads.size(), 1u);
  EXPECT_NE(graph::print(p.graph).find("add(mul(iota(1), -1), 5)"), std::string::npos) << graph::print(p.graph);
  EXPECT_EQ(graph::print(p.graph).find("0.1)"), std::string::npos) << "not rounded to the format";
  EXPECT_TRUE(std::get<graph::Map>(p.graph.nodes[1].kind).loads.empty());
}

TEST(Prepare, ConstantsInIndices) {
  const Prepared p = prepared(R"(
input v0 f16 [8:4, 4:1]
v1 i64 [3:1] = map [3] loads() value(mul(iota(0), 2))
v2 f16 [3:4, 4:1] = map [3, 4] loads(v1[3:1, 4:0], v0[3:0, 4:1] gather(l0, 8, 4, trap)) value(l1)
output v2[3:4, 4:1]
)");
  ASSERT_EQ(p.graph.nodes.size(), 1u);
  // The index is known: a strided read.
  EXPECT_NE(graph::print(p.graph).find("loads(v0[3:8, 4:1]) value(l0)"), std::string::npos) << graph::print(p.graph);
}

TEST(Prepare, IndicesThatLeaveTheTensorStay) {
  const Graph g = graph::parse(R"(
input v0 f16 [8:4, 4:1]
v1 i64 [3:1] = map [3] loads() value(mul(iota(0), 4))
v2 f16 [3:4, 4:1] = map [3, 4] loads(v1[3:1, 4:0], v0[3:0, 4:1] gather(l0, 8, 4, trap)) value(l1)
output v2[3:4, 4:1]
)");
  EXPECT_NE(graph::print(prepare(g).graph).find("gather(mul(iota(0), 4), 8, 4, trap)"), std::string::npos);
}

TEST(Prepare, RandomNumbersAndLongExpressionsStay) {
  const Prepared p = prepared(R"(
input v0 f16 [4:1]
v1 f32 [4:1] = map [4] loads() value(exp(f32(iota(0))))
v2 f16 [4:1] = map [4] loads(v0[4:1], v1[4:1]) value(add(l0, l1))
output v2[4:1]
)");
  EXPECT_EQ(p.graph.nodes.size(), 2u);
}

TEST(Prepare, NoEmptySpaces) {
  const Prepared p = prepared(R"(
input v0 f16 [0:4, 4:1]
input v1 f16 [3:4, 4:1]
v2 f32 [3:2, 2:1] = contract [3:m, 2:n, 0:k] a(v0[3:0, 2:0, 0:1]) b(v0[3:0, 2:0, 0:1])
v3 f16 [4:1] = reduce max [0, 4] over(0) loads(v0[0:4, 4:1]) value(l0)
v4 f16 [4:1], v5 i64 [4:1] = reduce argmin [0, 4] over(0) loads(v0[0:4, 4:1]) value(l0)
v6 f16 [0:4, 4:1] = map [0, 4] loads(v0[0:4, 4:1]) value(exp(l0))
v7 f16 [3:4, 4:1] = place [3, 4] fill(0.0) piece(v6[0:4, 4:1] at [0:1, 0:1]) piece(v1[3:4, 4:1] at [0:1, 0:1])
v8 f16 [3:4, 4:1] = place [3, 4] fill(2.0) piece(v6[0:4, 4:1] at [0:1, 0:1])
v9 f16 [3:4, 4:1] = scatter add [0, 4] base(v1[3:4, 4:1]) loads(v6[0:4, 4:1]) value(l0) target(0, trap) target(iota(1), trap)
v10 b8 [] = reduce all [0, 4] over(0, 1) loads(v6[0:4, 4:1]) value(lt(l0, 0.0))
output v2[3:2, 2:1]
output v3[4:1]
output v5[4:1]
output v6[0:4, 4:1]
output v7[3:4, 4:1]
output v8[3:4, 4:1]
output v9[3:4, 4:1]
output v10[]
)");
  for (const graph::Node& node : p.graph.nodes) {
    const auto* map = std::get_if<graph::Map>(&node.kind);
    ASSERT_TRUE(map) << graph::print(p.graph);
    for (const graph::Size& s : map->space) EXPECT_FALSE(s.is(0));
  }
  EXPECT_EQ(p.graph.nodes.size(), 7u);
  EXPECT_EQ(p.graph.values[static_cast<size_t>(p.graph.outputs[3].value)].node, none);
}

TEST(Prepare, EqualNodesAreMadeOnce) {
  // v2 equals v1, so v4 equals v3; v5 reads another box, v6 adds -0.0 where v1 adds 0.0, v7 has another type.
  const Prepared p = prepared(R"(
input v0 f16 [8:1]
v1 f16 [4:1] = map [4] loads(v0[4:1]) value(add(l0, 0.0))
v2 f16 [4:1] = map [4] loads(v0[4:1]) value(add(l0, 0.0)) at "aten.add" "again.py:7"
v3 f16 [4:1] = map [4] loads(v1[4:1]) value(exp(l0))
v4 f16 [4:1] = map [4] loads(v2[4:1]) value(exp(l0))
v5 f16 [4:1] = map [4] loads(v0[4:1 @ 1]) value(add(l0, 0.0))
v6 f16 [4:1] = map [4] loads(v0[4:1]) value(add(l0, -0.0))
v7 f32 [4:1] = map [4] loads(v0[4:1]) value(add(l0, 0.0))
v8 f32 [4:1] = map [4] loads(v3[4:1], v4[4:1], v5[4:1], v6[4:1], v7[4:1]) value(add(add(add(l0, l1), add(l2, l3)), l4))
output v8[4:1]
)");
  EXPECT_EQ(p.graph.nodes.size(), 6u) << graph::print(p.graph);
}

TEST(Prepare, EqualOutputsAndMutationsStayApart) {
  const Prepared p = prepared(R"(
input v0 f16 [4:1]
input v1 f16 [4:1]
v2 f16 [4:1] = map [4] loads(v0[4:1]) value(exp(l0))
v3 f16 [4:1] = map [4] loads(v0[4:1]) value(exp(l0))
v4 f16 [4:1] = map [4] loads(v0[4:1]) value(exp(l0))
v5 f16 [4:1] = map [4] loads(v4[4:1]) value(mul(l0, 2.0))
output v2[4:1]
output v3[4:1]
output v5[4:1]
mutate v0 = v4[4:1]
mutate v1 = v4[4:1]
)");
  EXPECT_NE(p.graph.outputs[0].value, p.graph.outputs[1].value);
  EXPECT_EQ(std::count(p.replaces.begin(), p.replaces.end(), 0), 1);
  EXPECT_EQ(std::count(p.replaces.begin(), p.replaces.end(), 1), 1);
}

TEST(Prepare, WhatSizesDecideLeavesExpressions) {
  // v1's checks can't fail, so the gather is a strided read; v2's branch is never taken, and its load goes with it; of
  // v3 the check may fail and stays.
  const Prepared p = prepared(R"(
input v0 f16 [8:4, 4:1]
input v1 f16 [4:1]
v2 f16 [6:4, 4:1] = map [6, 4] loads(v0[6:0, 4:1] gather(select(logical_or(lt(iota(0), 0), ge(iota(0), 8)), -1, add(iota(0), 1)), 8, 4, trap)) value(l0)
v3 f16 [4:1] = map [4] loads(v0[4:1], v1[4:1]) value(select(gt(iota(0), 3), l1, l0))
v4 f16 [4:1] = map [4] loads(v0[4:1], v1[4:1]) value(select(gt(iota(0), 2), l1, l0))
output v2[6:4, 4:1]
output v3[4:1]
output v4[4:1]
)");
  const std::string text = graph::print(p.graph);
  EXPECT_NE(text.find("loads(v0[6:4, 4:1 @ 4]) value(l0)"), std::string::npos) << text;
  EXPECT_NE(text.find("loads(v0[4:1]) value(l0)"), std::string::npos) << text;
  EXPECT_NE(text.find("select(gt(iota(0), 2), l1, l0)"), std::string::npos) << text;
}

TEST(Prepare, ProductsOfIndicesMayLeaveInt32) {
  const Prepared p = prepared(R"(
input v0 f16 [8:1]
v1 i32 [8:1] = map [8] loads(v0[8:1]) value(select(gt(l0, 0.0), mul(add(iota(0), 2147483640), add(iota(0), 2147483640)), 1))
output v1[8:1]
)");
  EXPECT_NE(graph::print(p.graph).find("mul(add(iota(0), 2147483640)"), std::string::npos) << graph::print(p.graph);
}

TEST(Prepare, ChecksOfIndicesStay) {
  // The element isn't needed, but an index of 4 is outside; rows of a scatter are checked where the index is computed.
  const Graph g = graph::parse(R"(
input v0 f16 [4:1]
v1 f16 [6:1] = map [6] loads(v0[6:0] gather(iota(0), 4, 1, trap)) value(select(lt(iota(0), 0), l0, 1.0))
v2 f16 [4:1] = scatter set [6] base(v0[4:1]) loads() value(1.0) target(add(iota(0), 0), trap)
output v1[6:1]
output v2[4:1]
)");
  const std::string text = graph::print(prepare(g).graph);
  EXPECT_NE(text.find("gather(iota(0), 4, 1, trap)"), std::string::npos) << text;
  EXPECT_NE(text.find("select(false, l0, 1.0)"), std::string::npos) << text;
  EXPECT_NE(text.find("target(add(iota(0), 0), trap)"), std::string::npos) << text;
}

TEST(Prepare, DimensionsThatOnlyRepeatAreMadeOnce) {
  // A padding mask, the same for each of 3 queries, read whole, backwards, and transposed from the second key on.
  const Prepared p = prepared(R"(
input v0 f16 [2:4, 4:1]
input v1 f16 [2:12, 3:4, 4:1]
v2 b8 [2:12, 3:4, 4:1] = map [2, 3, 4] loads(v0[2:4, 3:0, 4:1]) value(gt(l0, 0.0))
v3 f16 [2:12, 3:4, 4:1] = map [2, 3, 4] loads(v2[2:12, 3:4, 4:1]) value(select(l0, 0.0, -1.0))
v4 f16 [2:12, 3:4, 4:1] = map [2, 3, 4] loads(v1[2:12, 3:4, 4:1], v3[2:12, 3:4, 4:1], v3[2:12, 3:-4, 4:-1 @ 11]) value(add(add(l0, l1), l2))
v5 f16 [2:9, 3:3, 3:1] = map [2, 3, 3] loads(v3[2:12, 3:1, 3:4 @ 1]) value(l0)
output v4[2:12, 3:4, 4:1]
output v5[2:9, 3:3, 3:1]
)");
  for (const Id mask : {2, 3}) EXPECT_TRUE(p.graph.values[at(mask)].sizes[1].is(1)) << graph::print(p.graph);
}

TEST(Prepare, WhatIsReturnedOrReadByOtherMeansRepeats) {
  const Prepared p = prepared(R"(
input v0 f16 [4:1]
v1 f16 [3:4, 4:1] = map [3, 4] loads(v0[3:0, 4:1]) value(exp(l0))
v2 f16 [3:4, 4:1] = map [3, 4] loads(v0[3:0, 4:1]) value(neg(l0))
v3 f16 [2:4, 4:1], v4 i64 [2:4, 4:1] = sort from(v2[3:4, 4:1]) over(0) first(2)
v5 f16 [3:4, 4:1] = map [3, 4] loads(v1[3:4, 4:1]) value(mul(l0, 2.0))
output v1[3:4, 4:1]
output v3[2:4, 4:1]
output v5[3:4, 4:1]
)");
  for (const Id value : {1, 2}) EXPECT_TRUE(p.graph.values[at(value)].sizes[0].is(3)) << graph::print(p.graph);
}

TEST(Prepare, WidenedValuesAreReadNarrow) {
  // v1 has other strides, v3 (v2 afterwards) other numbers: they stay.
  const Prepared p = prepared(R"(
input v0 f16 [4:3, 3:1]
v1 f32 [4:1, 3:4] = map [4, 3] loads(v0[4:3, 3:1]) value(l0)
v2 f32 [4:3, 3:1] = map [4, 3] loads(v0[4:3, 3:1]) value(l0)
v3 f32 [4:3, 3:1] = map [4, 3] loads(v0[4:3, 3:1]) value(abs(l0))
v4 f32 [4:1] = reduce sum [4, 3] over(1) loads(v2[4:3, 3:1]) value(mul(l0, l0))
v5 f32 [4:3, 3:1] = map [4, 3] loads(v1[4:1, 3:4], v2[4:3, 3:1], v3[4:3, 3:1]) value(add(add(l0, l1), l2))
output v3[4:3, 3:1]
output v4[4:1]
output v5[4:3, 3:1]
)");
  const std::string text = graph::print(p.graph);
  EXPECT_NE(text.find("over(1) loads(v0[4:3, 3:1])"), std::string::npos) << text;
  EXPECT_NE(text.find("loads(v1[4:1, 3:4], v0[4:3, 3:1], v2[4:3, 3:1])"), std::string::npos) << text;
}

TEST(PlanText, RoundTrip) {
  const Graph g = graph::parse(R"(
input v0 f16 [4:1]
v1 f16 [4:1] = map [4] loads(v0[4:1]) value(exp(l0)) at "aten.\"exp\"" "m.py:3"
output v1[4:1]
)");
  Plan plan;
  plan.kernels.push_back({Form::rows, {0}, {2, 16}, {1, -64}, 3, 123456789012});
  plan.kernels.push_back({Form::sort, {}, {}, {}, 1, -1});
  plan.homes.push_back({Home::Kind::input, layout::Geometry::linear(base::Format::dl16, 4), {}});
  plan.homes.push_back(
      {Home::Kind::replaces, layout::Geometry::linear(base::Format::f32, 64), Ref{0, {4, 2}, {-1, 0}, 3}});
  plan.homes.push_back({Home::Kind::folded, {}, Ref{0, {}, {}, 0}});
  plan.homes.push_back({Home::Kind::folded, {}, Ref{0, {}, {}, 2}});
  plan.homes.push_back({Home::Kind::dead, {}, {}});
  plan.repacks.push_back({0, 1, layout::Geometry::linear(base::Format::dl16, 64)});
  EXPECT_EQ(plan::parse(print(plan, g)), plan) << print(plan, g);
  for (const char* bad : {"kernel rows", "kernel x nodes() grid() tile() slots 1 cost 1 of \"\"", "home v1 temp",
                          "home v0 nowhere", "repack node 1 read 0", "kernels"}) {
    EXPECT_THROW(plan::parse(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace spyre::plan
