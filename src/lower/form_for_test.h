// For tests: a candidate of a form, run on a card.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "lower/graph_for_test.h"
#include "lower/run_for_test.h"
#include "plan/forms.h"

namespace spyre::lower {

using Candidates = std::vector<plan::KernelPlan> (*)(const plan::Context& context, std::span<const graph::Id> nodes);

/// Runs the only node of the graph by one of its candidates, half of the time changed by `change` (null: never): one
/// that has a price, or else the last, which is always legal. Expects what the interpreter gives. `plain` is any plan
/// of the form; the seed decides about scrambled layouts and the card's checker and random-order modes, too.
inline void expect_a_candidate_runs(const GraphMaker& maker, Random& random, uint64_t seed, plan::KernelPlan plain,
                                    Candidates candidates_of, const std::function<void(plan::KernelPlan&)>& change,
                                    decltype(RunSettings::fill) fill = nullptr) {
  graph::verify(maker.graph);
  const plan::Prepared prepared = as_prepared(maker.graph);
  const plan::Plan homes = plain_plan(prepared, {std::move(plain)}, seed % 4 == 0 ? seed : 0);
  const device::Description& description = for_test::test_device().description();
  const plan::Id node = 0;
  const std::vector<plan::KernelPlan> candidates = candidates_of({prepared.graph, homes, description}, {&node, 1});
  plan::Plan plan = homes;
  plan.kernels = {candidates.back()};
  for (int tries = 0; tries < 3; ++tries) {
    plan::KernelPlan candidate = one_of(random, candidates);
    if (change && pick(random, 0, 1) == 0) change(candidate);
    if (price(prepared.graph, candidate, homes, description) >= 0) {
      plan.kernels = {candidate};
      break;
    }
  }
  RunSettings settings;
  settings.seed = seed;
  settings.checker = seed % 3 == 0;
  settings.random_order = seed % 3 == 1 ? seed : 0;
  settings.fill = std::move(fill);
  expect_runs_like_interpreter(prepared.graph, plan, settings);
}

}  // namespace spyre::lower
