// For tests of the rows and the reduce form: runs kernels under their candidates.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "lower/run_for_test.h"
#include "plan/forms.h"

namespace spyre::lower {

/// Index inputs are named "below<N>": their values are legal indices.
inline double index_fill(const graph::Graph& graph, graph::Id value, std::mt19937_64& random) {
  const std::string& name = graph.values[value].name;
  if (name.rfind("below", 0) == 0)
    return static_cast<double>(std::uniform_int_distribution<int64_t>(0, std::stoll(name.substr(5)) - 1)(random));
  if (name.rfind("around", 0) == 0)
    return static_cast<double>(std::uniform_int_distribution<int64_t>(-2, std::stoll(name.substr(6)) + 1)(random));
  return default_fill(graph, value, random);
}

/// Runs one kernel of these nodes (all when empty) under its candidates: `most` of them, and always the last, which
/// must be legal.
inline void run_candidates(const graph::Graph& graph, std::vector<std::vector<graph::Id>> kernels = {},
                           uint64_t seed = 1, size_t most = 2, uint64_t scramble = 0) {
  if (kernels.empty()) {
    kernels.emplace_back();
    for (graph::Id n = 0; n < static_cast<graph::Id>(graph.nodes.size()); ++n) kernels[0].push_back(n);
  }
  const plan::Prepared prepared = as_prepared(graph);
  std::vector<plan::KernelPlan> empty(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) empty[k].nodes = kernels[k];
  plan::Plan plan = plain_plan(prepared, empty, scramble);
  const plan::Context context{graph, plan, for_test::test_device().description()};
  std::vector<std::vector<plan::KernelPlan>> all;
  size_t rounds = 0;
  for (const auto& nodes : kernels) {
    all.emplace_back();
    if (plan::rows_accepts(context, nodes)) all.back() = plan::rows_candidates(context, nodes);
    if (nodes.size() == 1)
      for (auto& k : plan::reduce_candidates(context, nodes)) all.back().push_back(std::move(k));
    ASSERT_FALSE(all.back().empty()) << "no candidate\n" << graph::print(graph);
    rounds = std::max(rounds, all.back().size());
  }
  RunSettings settings;
  settings.seed = seed;
  settings.fill = index_fill;
  settings.params.assign(graph.params.size(), 0.75);
  size_t done = 0;
  for (size_t r = 0; r < rounds; ++r) {
    const bool last = r + 1 == rounds;
    if (!last && done >= most) continue;
    if (!last && kernels.size() == 1 && r < all[0].size()) {  // tiny steps take long, and the last one has them
      int64_t elements = 1;
      for (const int64_t t : all[0][r].tile) elements *= t;
      if (elements <= 256 && done > 0) continue;
    }
    for (size_t k = 0; k < kernels.size(); ++k)
      plan.kernels[k] = all[k][last ? all[k].size() - 1 : std::min(r, all[k].size() - 1)];
    if (!last) {
      try {  // candidates may be refused
        program::verify(lower(graph, plan, context.description).program, context.description);
      } catch (const Error& e) {
        ASSERT_EQ(e.fault(), Fault::program) << e.what();
        continue;
      }
    }
    ++done;
    settings.checker = !last && r % 2 == 1;  // the last has many small steps: slow in these modes
    settings.random_order = !last && r % 3 == 2 ? seed + 1 : 0;
    if (settings.random_order) settings.checker = false;
    expect_runs_like_interpreter(graph, plan, settings);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace spyre::lower
