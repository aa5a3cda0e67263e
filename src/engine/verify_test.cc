// SPYRE_VERIFY: right programs pass, wrong ones are named.
#include <gtest/gtest.h>

#include "engine/compile.h"
#include "engine/launch_for_test.h"

namespace spyre::engine {
namespace {

const char* const text = R"(
input v0 "x" f16 [16:64, 64:1]
input v1 "w" f16 [64:64, 64:1]
v2 f16 [16:64, 64:1] = map [16, 64] loads(v0[16:64, 64:1]) value(mul(l0, 1.5)) at "aten.mul" "m.py:1"
v3 f16 [16:64, 64:1] = contract [16:m, 64:n, 64:k] a(v2[16:64, 64:0, 64:1]) b(v1[16:0, 64:1, 64:64]) at "aten.mm" "m.py:2"
v4 f16 [16:1] = reduce max [16, 64] over(1) loads(v3[16:64, 64:1]) value(l0) at "aten.amax" "m.py:3"
v5 f16 [16:64, 64:1] = map [16, 64] loads(v0[16:64, 64:1], v4[16:1, 64:0]) value(add(l0, l1)) at "aten.add" "m.py:4"
output v3[16:64, 64:1]
output v4[16:1]
mutate v0 = v5[16:64, 64:1]
)";

struct Verify : testing::Test {
  OptionsForTest on{[](Options& o) { o.verify = true; }};
  ~Verify() override { set_lowered_hook(nullptr); }
};

TEST_F(Verify, RightProgramsPass) {
  expect_right(text);
  expect_right(text, {.offsets = {5, 64}});
}

/// Calls `change` with every vector expression of the program's kernels.
void each_constant(program::VecExpr& e, const std::function<void(program::VecExpr&)>& change) {
  change(e);
  for (program::VecExpr& a : e.args) each_constant(a, change);
}
void each_constant(program::Block& block, const std::function<void(program::VecExpr&)>& change) {
  for (program::Stmt& s : block) {
    if (auto* loop = std::get_if<program::For>(&s.node)) each_constant(loop->body, change);
    if (auto* guard = std::get_if<program::If>(&s.node)) each_constant(guard->body, change);
    auto* step = std::get_if<program::Step>(&s.node);
    if (!step) continue;
    if (auto* vector = std::get_if<program::Vector>(&step->op))
      for (program::VecExpr& e : vector->value) each_constant(e, change);
  }
}

TEST_F(Verify, AWrongConstantIsNamed) {
  int changed = 0;
  set_lowered_hook([&](lower::Lowered& lowered) {
    for (program::Kernel& kernel : lowered.program.kernels)
      for (program::Nest& nest : kernel.nests)
        each_constant(nest.body, [&](program::VecExpr& e) {
          if (e.op == program::VecOp::constant_f && e.number == 1.5) e.number = 1.25, ++changed;
        });
  });
  Executor executor(graph::parse(text));
  const LaunchTensors t = make_tensors(executor, plain_device(), {}, {});
  try {
    executor.run(plain_device().default_stream(), {}, t.inputs, t.outputs, {});
    ADD_FAILURE() << "accepted, " << changed << " constants changed";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::program);
    const std::string what = e.what();
    EXPECT_NE(what.find("SPYRE_VERIFY"), std::string::npos) << what;
    // The multiplication, or what it was fused into.
    EXPECT_TRUE(what.find("aten.mul at m.py:1") != std::string::npos ||
                what.find("aten.mm at m.py:2") != std::string::npos)
        << what;
    EXPECT_NE(what.find("expected"), std::string::npos) << what;
  }
}

TEST_F(Verify, AMissingStepIsNamed) {
  set_lowered_hook([](lower::Lowered& lowered) {
    // The last call's first store gets what was there: its kernel adds 1 to a constant or drops to the first operand.
    for (program::Kernel& kernel : lowered.program.kernels)
      for (program::Nest& nest : kernel.nests)
        each_constant(nest.body, [](program::VecExpr& e) {
          if (e.op == program::VecOp::add && e.type == program::Reg::f32) e.op = program::VecOp::sub;
        });
  });
  Executor executor(graph::parse(R"(
input v0 "x" f32 [40:1]
v1 f32 [40:1] = map [40] loads(v0[40:1]) value(add(l0, 3.0)) at "aten.add" "m.py:9"
output v1[40:1])"));
  const LaunchTensors t = make_tensors(executor, plain_device(), {}, {});
  try {
    executor.run(plain_device().default_stream(), {}, t.inputs, t.outputs, {});
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("aten.add at m.py:9: element [0] of"), std::string::npos) << e.what();
  }
}

TEST_F(Verify, AliasedInputsAreReadBeforeTheyAreWritten) {
  expect_right(R"(
input v0 "x" f32 [9:33, 33:1]
input v1 "y" f32 [9:33, 33:1]
v2 f32 [9:33, 33:1] = map [9, 33] loads(v0[9:33, 33:1], v1[9:33, 33:1]) value(add(l0, l1)) at "aten.add_" "m.py:2"
mutate v0 = v2[9:33, 33:1]
)",
               {.offsets = {0, 33}, .memory = {0, 0}});
}

}  // namespace
}  // namespace spyre::engine
