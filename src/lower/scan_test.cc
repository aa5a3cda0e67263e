#include <gtest/gtest.h>

#include "lower/form_for_test.h"

namespace spyre::lower {
namespace {

using graph::Expr;
using graph::HostType;
using program::Monoid;

GraphMaker random_scan(Random& random) {
  GraphMaker maker;
  graph::Scan scan;
  const int64_t rank = pick(random, 1, 4);
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < rank; ++d) sizes.push_back(pick(random, 0, 3) == 0 ? 1 : pick(random, 1, 12));
  scan.dim = static_cast<int32_t>(pick(random, 0, rank - 1));
  sizes[static_cast<size_t>(scan.dim)] = pick(random, 1, rank == 1 ? 2000 : 150);
  if (pick(random, 0, 2) == 0 && scan.dim + 1 < rank) sizes.back() = pick(random, 1, 200);
  const HostType type =
      one_of(random, std::vector<HostType>{HostType::f16, HostType::f32, HostType::i64, HostType::i32});
  const bool real = type == HostType::f16 || type == HostType::f32;
  scan.monoid = one_of(random, std::vector<Monoid>{Monoid::sum, Monoid::prod, Monoid::argmax, Monoid::argmin,
                                                   Monoid::max, Monoid::min, Monoid::logsumexp});
  if (scan.monoid == Monoid::prod && !real) scan.monoid = Monoid::sum;
  if (scan.monoid == Monoid::logsumexp && !real) scan.monoid = Monoid::argmax;
  scan.trap = type == HostType::i64 && scan.monoid == Monoid::sum;
  scan.space = as_sizes(sizes);
  scan.loads.push_back({maker.random_input(random, type, sizes), {}, 0});
  scan.value = Expr::load(0, graph::register_of(type));
  if (pick(random, 0, 3) == 0) {
    scan.loads.push_back({maker.random_input(random, HostType::b8, sizes), {}, 0});
    scan.value = Expr::make(graph::VecOp::select, {Expr::load(1, graph::Reg::pred), scan.value,
                                                   real ? Expr::f32(0.5) : Expr::iota(scan.dim)});
  }
  std::vector<HostType> types = {scan.monoid == Monoid::logsumexp ? HostType::f32 : type};
  if (scan.monoid == Monoid::argmax || scan.monoid == Monoid::argmin) types.push_back(HostType::i64);
  if (scan.monoid == Monoid::logsumexp) types.push_back(HostType::f32);
  const auto out = maker.add(std::move(scan), types, dense_strides(random, sizes, pick(random, 0, 3) == 0));
  for (const graph::Ref& ref : out) {
    if (pick(random, 0, 4) > 0 || maker.graph.outputs.empty()) maker.output(ref);
  }
  return maker;
}

TEST(Scan, RandomLinesAsTheInterpreterHasThem) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const plan::KernelPlan plain{plan::Form::scan, {0}, {1, 1}, {1 << 12, 1}, 2, 0};
    const auto change = [&](plan::KernelPlan& k) { k.tile[0] = 1 << pick(random, 8, 13); };
    const auto fill = [](const graph::Graph& graph, graph::Id value, std::mt19937_64& r) {
      const double x = default_fill(graph, value, r);
      const bool nan = graph.values[static_cast<size_t>(value)].type == HostType::f32 && pick(r, 0, 400) == 0;
      return nan ? std::numeric_limits<double>::quiet_NaN() : x;
    };
    expect_a_candidate_runs(random_scan(random), random, seed, plain, plan::scan_candidates, change, fill);
    if (HasFailure()) return;
  }
}

TEST(Scan, SumsOfInt64ThatLeaveInt32StopTheProgram) {
  GraphMaker maker;
  graph::Scan scan;
  scan.space = {graph::Size(5), graph::Size(100)};
  scan.dim = 1;
  scan.trap = true;
  scan.loads.push_back({maker.input(HostType::i64, {5, 100}, {100, 1}), {}, 0});
  scan.value = Expr::load(0, graph::Reg::i32);
  maker.output(maker.add(std::move(scan), {HostType::i64})[0]);
  RunSettings settings;
  settings.compare = false;
  settings.fill = [](const graph::Graph&, graph::Id, std::mt19937_64&) { return 1e8; };
  for (const int64_t across : {0, 1}) {
    const plan::Prepared prepared = as_prepared(maker.graph);
    const plan::Plan plan = plain_plan(prepared, {{plan::Form::scan, {0}, {1, 1}, {1 << 12, across}, 2, 0}});
    EXPECT_THROW(first_difference(prepared.graph, plan, settings), Error);
  }
}

}  // namespace
}  // namespace spyre::lower
