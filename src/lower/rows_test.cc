// Rows and reduce kernels of fixed shapes, run on a card under all their candidates.
#include <gtest/gtest.h>

#include "lower/rows_for_test.h"

namespace spyre::lower {
namespace {

using graph::Graph;
using graph::Id;

void run_text(const std::string& text, std::vector<std::vector<Id>> kernels = {}) {
  run_candidates(graph::parse(text), std::move(kernels), 1, 100);
}

void run_some(const std::string& text) { run_candidates(graph::parse(text), {}, 1, 4); }

TEST(Rows, Pointwise) {
  run_text(R"(
input v0 "x" f16 [1000:1]
input v1 "y" f16 [1000:1]
v2 f16 [1000:1] = map [1000] loads(v0[1000:1], v1[1000:1]) value(add(mul(l0, l1), 1.0))
output v2[1000:1]
)");
}

TEST(Rows, Softmax) {
  run_text(R"(
input v0 "x" f16 [6:1500, 15:100, 100:1]
v1 f32 [6:15, 15:1] = reduce max [6, 15, 100] over(2) loads(v0[6:1500, 15:100, 100:1]) value(l0)
v2 f32 [6:1500, 15:100, 100:1] = map [6, 15, 100] loads(v0[6:1500, 15:100, 100:1], v1[6:15, 15:1, 100:0]) value(exp(sub(l0, l1)))
v3 f32 [6:15, 15:1] = reduce sum [6, 15, 100] over(2) loads(v2[6:1500, 15:100, 100:1]) value(l0)
v4 f16 [6:1500, 15:100, 100:1] = map [6, 15, 100] loads(v2[6:1500, 15:100, 100:1], v3[6:15, 15:1, 100:0]) value(div(l0, l1))
output v4[6:1500, 15:100, 100:1]
)");
}

TEST(Rows, LayerNormWithItsStatistics) {
  run_text(R"(
input v0 "x" f16 [24:384, 384:1]
input v1 "g" f16 [384:1]
input v2 "b" f16 [384:1]
v3 f32 [24:1], v4 f32 [24:1], v5 f32 [24:1] = reduce welford [24, 384] over(1) loads(v0[24:384, 384:1]) value(l0)
v6 f32 [24:1, 1:1] = map [24, 1] loads(v4[24:1, 1:1], v5[24:1, 1:1]) value(rsqrt(add(div(l0, l1), 1.0e-5)))
v7 f16 [24:384, 384:1] = map [24, 384] loads(v0[24:384, 384:1], v3[24:1, 384:0], v6[24:1, 384:0], v1[24:0, 384:1], v2[24:0, 384:1]) value(fma(mul(sub(l0, l1), l2), l3, l4))
output v7[24:384, 384:1]
output v6[24:1, 1:1]
output v3[24:1]
)");
}

TEST(Rows, Transposes) {
  run_text(R"(
input v0 "x" f16 [70:33, 33:1]
v1 f16 [33:70, 70:1] = map [33, 70] loads(v0[33:1, 70:33]) value(l0)
output v1[33:70, 70:1]
)");
}

TEST(Rows, FlipsBothWays) {
  run_text(R"(
input v0 "x" f32 [5:33, 33:1]
v1 f32 [5:33, 33:1] = map [5, 33] loads(v0[5:-33, 33:-1 @ 164]) value(l0)
output v1[5:33, 33:1]
)");
}

TEST(Rows, Embedding) {
  run_text(R"(
input v0 "below50" i64 [4:9, 9:1]
input v1 "table" f16 [50:96, 96:1]
v2 f16 [4:864, 9:96, 96:1] = map [4, 9, 96] loads(v0[4:9, 9:1, 96:0], v1[4:0, 9:0, 96:1] gather(l0, 50, 96, trap)) value(l1)
output v2[4:864, 9:96, 96:1]
)");
}

TEST(Rows, GatherAlongTheLastDimension) {
  run_text(R"(
input v0 "around70" i64 [12:40, 40:1]
input v1 "table" f16 [12:70, 70:1]
v2 f16 [12:40, 40:1] = map [12, 40] loads(v0[12:40, 40:1], v1[12:70, 40:0] gather(l0, 70, 1, fill) fill 2.5) value(l1)
output v2[12:40, 40:1]
)");
}

TEST(Rows, TwoIndices) {
  run_text(R"(
input v0 "below7" i64 [40:1]
input v1 "below9" i64 [40:1]
input v2 "table" f16 [7:90, 9:10, 10:1]
v3 f16 [40:10, 10:1] = map [40, 10] loads(v0[40:1, 10:0], v1[40:1, 10:0], v2[40:0, 10:1] gather(l0, 7, 90, trap) gather(l1, 9, 10, trap)) value(l2)
output v3[40:10, 10:1]
)");
}

TEST(Rows, TwoIndicesAlongDifferentAxes) {
  run_text(R"(
input v0 "below7" i64 [40:1]
input v1 "below9" i64 [12:1]
input v2 "table" f16 [7:90, 9:10, 10:1]
v3 f16 [40:120, 12:10, 10:1] = map [40, 12, 10] loads(v0[40:1, 12:0, 10:0], v1[40:0, 12:1, 10:0], v2[40:0, 12:0, 10:1] gather(l0, 7, 90, trap) gather(l1, 9, 10, trap)) value(l2)
output v3[40:120, 12:10, 10:1]
)");
}

TEST(Rows, AnIndexOfTwoAxesComesWithSeveralRowsOfOne) {
  const Graph graph = graph::parse(R"(
input v0 "ix" i64 [8:256, 256:1]
input v1 "table" f16 [50:384, 384:1]
v2 f16 [8:49152, 128:384, 384:1] = map [8, 128, 384] loads(v0[8:256, 128:1, 384:0], v1[8:0, 128:0, 384:1] gather(l0, 50, 384, trap)) value(l1)
output v2[8:49152, 128:384, 384:1]
)");
  std::vector<plan::KernelPlan> empty(1);
  empty[0].nodes = {0};
  const plan::Plan plan = plain_plan(as_prepared(graph), empty);
  const auto candidates = plan::rows_candidates({graph, plan, for_test::test_device().description()}, empty[0].nodes);
  ASSERT_FALSE(candidates.empty());
  EXPECT_GT(candidates[0].tile[1], 1);
  for (const auto& k : candidates) EXPECT_TRUE(k.tile[0] == 1 || k.tile[1] == 1);
}

TEST(Rows, AnIndexOutsideTraps) {
  const Graph graph = graph::parse(R"(
input v0 "ix" i64 [4:1]
input v1 "table" f16 [50:96, 96:1]
v2 f16 [4:96, 96:1] = map [4, 96] loads(v0[4:1, 96:0], v1[4:0, 96:1] gather(add(l0, 500), 50, 96, trap)) value(l1) at "aten.embedding" "m.py:1"
output v2[4:96, 96:1]
)");
  plan::KernelPlan kernel;
  kernel.nodes = {0};
  plan::Plan plan = plain_plan(as_prepared(graph), {kernel});
  const plan::Context context{graph, plan, for_test::test_device().description()};
  plan.kernels = {plan::rows_candidates(context, kernel.nodes)[0]};
  RunSettings settings;
  EXPECT_THROW(first_difference(graph, plan, settings), Error);
}

TEST(Rows, NarrowIntegersWrap) {
  run_text(R"(
input v0 "a" u8 [300:1]
input v1 "b" i8 [300:1]
v2 u8 [300:1] = map [300] loads(v0[300:1]) value(bit_and(add(l0, 200), 255))
v3 i8 [300:1] = map [300] loads(v1[300:1], v2[300:1]) value(sub(bit_and(add(add(l0, l1), 128), 255), 128))
v4 i32 [300:1] = map [300] loads(v3[300:1], v2[300:1]) value(add(l0, l1))
output v4[300:1]
output v3[300:1]
)");
}

TEST(Reduce, EveryMonoidInPartsOfCores) {
  struct Case {
    const char *monoid, *results, *outputs, *value;
  };
  const Case cases[] = {
      {"sum", "v1 f32 []", "output v1[]\n", "l0"},
      {"max", "v1 f16 []", "output v1[]\n", "l0"},
      {"min", "v1 f32 []", "output v1[]\n", "l0"},
      {"prod", "v1 f32 []", "output v1[]\n", "fma(l0, 0.001, 1.0)"},
      {"any", "v1 b8 []", "output v1[]\n", "lt(l0, -1.99)"},
      {"all", "v1 b8 []", "output v1[]\n", "lt(l0, 1.9)"},
      {"argmax", "v1 f32 [], v2 i64 []", "output v1[]\noutput v2[]\n", "l0"},
      {"argmin", "v1 f32 [], v2 i64 []", "output v1[]\noutput v2[]\n", "floor(l0)"},
      {"welford", "v1 f32 [], v2 f32 [], v3 f32 []", "output v1[]\noutput v2[]\noutput v3[]\n", "l0"},
      {"logsumexp", "v1 f32 [], v2 f32 []", "output v1[]\noutput v2[]\n", "l0"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.monoid);
    run_text(
        fmt::format("input v0 \"x\" f16 [40:300, 300:1]\n{} = reduce {} [40, 300] over(0, 1) loads(v0[40:300, "
                    "300:1]) value({})\n{}",
                    c.results, c.monoid, c.value, c.outputs));
    // Columns, and a middle dimension that stays.
    std::string kept = c.results;
    for (size_t at = 0; (at = kept.find("[]", at)) != std::string::npos; at += 6) kept.replace(at, 2, "[70:1]");
    std::string outputs = c.outputs;
    for (size_t at = 0; (at = outputs.find("[]", at)) != std::string::npos; at += 6) outputs.replace(at, 2, "[70:1]");
    run_some(
        fmt::format("input v0 \"x\" f16 [5:4550, 70:65, 65:1]\n{} = reduce {} [5, 70, 65] over(0, 2) "
                    "loads(v0[5:4550, 70:65, 65:1]) value({})\n{}",
                    kept, c.monoid, c.value, outputs));
    run_some(
        fmt::format("input v0 \"x\" f16 [90:70, 70:1]\n{} = reduce {} [90, 70] over(0) loads(v0[90:70, 70:1]) "
                    "value({})\n{}",
                    kept, c.monoid, c.value, outputs));
    if (HasFailure()) return;
  }
}

TEST(Rows, InPlaceAtTheSamePoints) {
  const Graph graph = graph::parse(R"(
input v0 "x" f16 [100:64, 64:1]
input v1 "y" f16 [64:1]
v2 f16 [100:64, 64:1] = map [100, 64] loads(v0[100:64, 64:1], v1[100:0, 64:1]) value(add(l0, l1))
output v2[100:64, 64:1]
)");
  plan::Prepared prepared = as_prepared(graph);
  prepared.replaces[2] = 0;
  plan::KernelPlan kernel;
  kernel.nodes = {0};
  plan::Plan plan = plain_plan(prepared, {kernel});
  const plan::Context context{graph, plan, for_test::test_device().description()};
  for (const plan::KernelPlan& k : plan::rows_candidates(context, kernel.nodes)) {
    plan.kernels = {k};
    expect_runs_like_interpreter(graph, plan);
  }
}

TEST(Rows, InPlaceInRowsThatAreNoWholeSticks) {
  const Graph graph = graph::parse(R"(
input v0 "x" f16 [7:3250, 65:50, 50:1]
input v1 "y" f16 [7:3250, 65:50, 50:1]
v2 f16 [7:3250, 65:50, 50:1] = map [7, 65, 50] loads(v0[7:3250, 65:50, 50:1], v1[7:3250, 65:50, 50:1]) value(add(l0, l1))
output v2[7:3250, 65:50, 50:1]
)");
  plan::Prepared prepared = as_prepared(graph);
  prepared.replaces[2] = 0;
  plan::KernelPlan kernel;
  kernel.nodes = {0};
  plan::Plan plan = plain_plan(prepared, {kernel});
  const plan::Context context{graph, plan, for_test::test_device().description()};
  const auto candidates = plan::rows_candidates(context, kernel.nodes);
  EXPECT_TRUE(std::all_of(candidates.begin(), candidates.end(), [](const auto& k) { return k.grid.size() == 2; }));
  EXPECT_GT(candidates.at(0).grid.at(0), 1);  // rows over the cores
  for (const plan::KernelPlan& k : candidates) {
    plan.kernels = {k};
    expect_runs_like_interpreter(graph, plan);
  }
}

TEST(Rows, NinePermutedDimensions) {
  std::string sizes, contiguous, permuted, space;
  for (int d = 0; d < 9; ++d) {
    sizes += fmt::format("{}2:{}", d ? ", " : "", 1 << (8 - d));
    permuted += fmt::format("{}2:{}", d ? ", " : "", 1 << (d * 5 % 9));
    space += d ? ", 2" : "2";
  }
  run_text(
      fmt::format("input v0 \"x\" f16 [{0}]\nv1 f16 [{0}] = map [{1}] loads(v0[{2}]) value(neg(l0))\noutput v1[{0}]\n",
                  sizes, space, permuted));
}

}  // namespace
}  // namespace spyre::lower
