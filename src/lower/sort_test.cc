#include <gtest/gtest.h>

#include "lower/form_for_test.h"

namespace spyre::lower {
namespace {

using graph::HostType;

GraphMaker random_sort(Random& random) {
  GraphMaker maker;
  graph::Sort sort;
  const int64_t rank = pick(random, 1, 4);
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < rank; ++d) sizes.push_back(pick(random, 0, 3) == 0 ? 1 : pick(random, 1, 9));
  sort.dim = static_cast<int32_t>(pick(random, 0, rank - 1));
  const int64_t length = sizes[static_cast<size_t>(sort.dim)] = pick(random, 1, rank < 3 ? 1500 : 100);
  sort.descending = pick(random, 0, 1) == 0;
  if (pick(random, 0, 1) == 0)
    sort.k = graph::Size(pick(random, 1, pick(random, 0, 1) ? length : std::min<int64_t>(length, 20)));
  const HostType type =
      one_of(random, std::vector<HostType>{HostType::f16, HostType::f32, HostType::i64, HostType::u8, HostType::i16});
  sort.from = maker.random_input(random, type, sizes);
  std::vector<int64_t> out = sizes;
  if (sort.k) out[static_cast<size_t>(sort.dim)] = sort.k->constant().value();
  const auto results =
      maker.add(std::move(sort), {type, HostType::i64}, dense_strides(random, out, pick(random, 0, 3) == 0));
  const int64_t which = pick(random, 0, 3);
  if (which != 1) maker.output(results[0]);
  if (which != 2) maker.output(results[1]);
  return maker;
}

TEST(Sort, RandomRowsAsTheInterpreterHasThem) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::KernelPlan plain{plan::Form::sort, {0}, {1}, {64}, 2, 0};
    const auto change = [&](plan::KernelPlan& k) { k.tile[0] = pick(random, 1, 6) * 128; };  // as if rows didn't fit
    const auto fill = [](const graph::Graph& graph, graph::Id value, std::mt19937_64& r) {
      const HostType type = graph.values[static_cast<size_t>(value)].type;
      const bool nan = (type == HostType::f32 || type == HostType::f16) && pick(r, 0, 99) == 0;
      if (nan) return std::numeric_limits<double>::quiet_NaN();
      // Few different numbers, so that many are equal.
      return static_cast<double>(type == HostType::u8 ? pick(r, 0, 9) : pick(r, -20, 20));
    };
    expect_a_candidate_runs(random_sort(random), random, seed, plain, plan::sort_candidates, change, fill);
    if (HasFailure()) return;
  }
}

TEST(Sort, BlocksOfARowThatDoesNotFit) {
  for (const bool descending : {false, true}) {
    GraphMaker maker;
    graph::Sort sort;
    sort.from = maker.input(HostType::f32, {2, 1000}, {1000, 1});
    sort.dim = 1;
    sort.descending = descending;
    for (const graph::Ref& r : maker.add(std::move(sort), {HostType::f32, HostType::i64})) maker.output(r);
    const plan::Prepared prepared = as_prepared(maker.graph);
    const plan::Plan plan = plain_plan(prepared, {{plan::Form::sort, {0}, {4}, {256}, 2, 0}});
    RunSettings settings;
    settings.fill = [](const graph::Graph&, graph::Id, std::mt19937_64& r) {
      return static_cast<double>(pick(r, 0, 30));
    };
    expect_runs_like_interpreter(prepared.graph, plan, settings);
  }
}

TEST(Sort, BlocksKeepTheOrderOfEqualValues) {
  for (const HostType type : {HostType::f16, HostType::b8})
    for (const bool descending : {false, true})
      for (const int32_t cores : {1, 3}) {
        SCOPED_TRACE(cores);
        GraphMaker maker;
        graph::Sort sort;
        sort.from = maker.input(type, {8000}, {1});
        sort.dim = 0;
        sort.descending = descending;
        for (const graph::Ref& r : maker.add(std::move(sort), {type, HostType::i64})) maker.output(r);
        const plan::Prepared prepared = as_prepared(maker.graph);
        const plan::Plan plan = plain_plan(prepared, {{plan::Form::sort, {0}, {cores}, {1500}, 2, 0}});
        RunSettings settings;
        settings.fill = [](const graph::Graph&, graph::Id, std::mt19937_64& r) {
          return static_cast<double>(pick(r, 0, 1));
        };
        expect_runs_like_interpreter(prepared.graph, plan, settings);
      }
}

}  // namespace
}  // namespace spyre::lower
