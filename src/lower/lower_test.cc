// What lower() does with the kernels of any form: templates, symbols, temps.
#include "lower/lower.h"

#include <gtest/gtest.h>

#include "lower/graph_for_test.h"
#include "lower/run_for_test.h"

namespace spyre::lower {
namespace {

using base::HostType;

plan::KernelPlan place_plan(graph::Id node) { return {plan::Form::place, {node}, {8, 1}, {1 << 14, 0}, 2, 0}; }

/// A chain of padded copies, each of the one before without its last rows.
GraphMaker chain(int length) {
  GraphMaker maker;
  graph::Ref ref = maker.input(HostType::f16, {32, 64}, {64, 1});
  for (int i = 0; i < length; ++i) {
    graph::Place place;
    graph::Ref part = ref;
    part.sizes[0] = 24;
    place.fill = 2;
    place.pieces.push_back({part, as_sizes({8, 0}), as_sizes({1, 1})});
    place.sizes = as_sizes({32, 64});
    ref = maker.add(std::move(place), {HostType::f16})[0];
  }
  maker.output(ref);
  return maker;
}

TEST(Lower, EqualKernelsShareATemplateAndTempsAreReused) {
  const plan::Prepared prepared = as_prepared(chain(6).graph);
  std::vector<plan::KernelPlan> kernels;
  for (graph::Id n = 0; n < 6; ++n) kernels.push_back(place_plan(n));
  const plan::Plan plan = plain_plan(prepared, kernels);
  const Lowered lowered = lower(prepared.graph, plan, for_test::test_device().description());
  EXPECT_EQ(lowered.program.kernels.size(), 1u);
  EXPECT_EQ(lowered.program.calls.size(), 6u);
  EXPECT_EQ(lowered.program.symbols.size(), 4u);  // input, output, and two temps that take turns
  for (size_t c = 0; c < 6; ++c) {
    EXPECT_EQ(lowered.program.locs[static_cast<size_t>(lowered.program.calls[c].loc)].source,
              "test.py:" + std::to_string(c));
  }
  expect_runs_like_interpreter(prepared.graph, plan);
}

TEST(Lower, OneKernelAlone) {
  const plan::Prepared prepared = as_prepared(chain(3).graph);
  const plan::Plan plan = plain_plan(prepared, {place_plan(0), place_plan(1), place_plan(2)});
  const device::Description& description = for_test::test_device().description();
  const Lowered lowered = lower_kernel(prepared.graph, plan.kernels[1], plan, description);
  ASSERT_EQ(lowered.program.symbols.size(), 2u);
  for (size_t s = 0; s < 2; ++s) {
    const bool made = lowered.symbols[s].value == prepared.graph.nodes[1].results[0];
    EXPECT_EQ(lowered.program.symbols[s].direction, made ? program::Direction::out : program::Direction::in);
  }
  EXPECT_GT(price(prepared.graph, plan.kernels[1], plan, description), 0);
}

TEST(Lower, WhatCannotBeBuiltHasNoPrice) {
  // Two pieces that share sticks, divided by cores apart: not legal.
  GraphMaker maker;
  graph::Place place;
  place.pieces.push_back({maker.input(HostType::f16, {8, 10}, {10, 1}), as_sizes({0, 0}), as_sizes({1, 1})});
  place.pieces.push_back({maker.input(HostType::f16, {8, 10}, {10, 1}), as_sizes({0, 10}), as_sizes({1, 1})});
  place.sizes = as_sizes({8, 20});
  maker.output(maker.add(std::move(place), {HostType::f16})[0]);
  const plan::Prepared prepared = as_prepared(maker.graph);
  plan::Plan plan = plain_plan(prepared, {place_plan(0)});
  std::string why;
  EXPECT_LT(price(prepared.graph, plan.kernels[0], plan, for_test::test_device().description(), &why), 0);
  EXPECT_FALSE(why.empty());
  plan.kernels[0].tile[1] = 1;  // sticks belong to one core
  EXPECT_GT(price(prepared.graph, plan.kernels[0], plan, for_test::test_device().description()), 0);
  expect_runs_like_interpreter(prepared.graph, plan);
}

}  // namespace
}  // namespace spyre::lower
