#include <gtest/gtest.h>

#include "lower/form_for_test.h"

namespace spyre::lower {
namespace {

using graph::Expr;
using graph::HostType;
using graph::Scatter;
using Mode = Scatter::Mode;

/// A random scatter: rows along one dimension, several data-dependent dimensions, or an index per element.
GraphMaker random_scatter(Random& random, std::vector<int64_t>& bounds) {
  GraphMaker maker;
  Scatter node;
  const int64_t rank = pick(random, 1, 4);
  std::vector<int64_t> sizes;
  for (int64_t d = 0; d < rank; ++d) sizes.push_back(pick(random, 0, 3) == 0 ? 1 : pick(random, 1, 20));
  if (pick(random, 0, 1) == 0) sizes.back() = pick(random, 1, 150);
  node.mode = one_of(random, std::vector<Mode>{Mode::set, Mode::set, Mode::add, Mode::prod, Mode::max, Mode::min});
  const HostType type = node.mode == Mode::set || node.mode == Mode::max || node.mode == Mode::min
                            ? one_of(random, std::vector<HostType>{HostType::f16, HostType::f32, HostType::i64,
                                                                   HostType::u8, HostType::i16})
                            : one_of(random, std::vector<HostType>{HostType::f16, HostType::f32, HostType::i32});
  node.base = maker.random_input(random, type, sizes);
  std::vector<int64_t> space;
  const auto add_index = [&](const std::vector<bool>& moves, int64_t bound) {
    std::vector<int64_t> own = space;
    for (size_t d = 0; d < own.size(); ++d) {
      if (!moves[d]) own[d] = 1;
    }
    graph::Ref ref = maker.input(HostType::i64, own, dense_strides(random, own, false));
    bounds.resize(maker.graph.values.size(), 0);
    bounds.back() = bound;
    for (size_t d = 0; d < own.size(); ++d) {
      ref.sizes[d] = space[d];
      if (!moves[d]) ref.strides[d] = 0;
    }
    node.loads.push_back({ref, {}, 0});
    return Expr::load(static_cast<graph::Id>(node.loads.size() - 1), graph::Reg::i32);
  };
  const int64_t kind = pick(random, 0, 2);
  const auto dim = static_cast<size_t>(pick(random, 0, rank - 1));
  if (kind < 2) {  // one index: of rows (index_copy) or of elements (scatter)
    space = sizes;
    space[dim] = pick(random, 1, 30);
    for (size_t d = 0; kind == 1 && d < space.size(); ++d) {
      if (d != dim) space[d] = pick(random, 1, sizes[d]);
    }
    std::vector<bool> moves(space.size(), kind == 1);
    moves[dim] = true;
    const Expr index = add_index(moves, sizes[dim]);
    for (size_t d = 0; d < space.size(); ++d) {
      node.targets.push_back({d == dim ? index : Expr::iota(static_cast<int32_t>(d)), graph::OnOutside::trap});
    }
  } else {  // index_put: leading dimensions by data, the others whole
    const auto by_data = static_cast<size_t>(pick(random, 1, rank));
    const int64_t lists = pick(random, 1, 2);
    for (int64_t l = 0; l < lists; ++l) space.push_back(pick(random, 1, 9));
    for (size_t d = by_data; d < sizes.size(); ++d) space.push_back(sizes[d]);
    std::vector<bool> moves(space.size(), false);
    for (int64_t l = 0; l < lists; ++l) moves[static_cast<size_t>(l)] = true;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (d < by_data) {
        node.targets.push_back({add_index(moves, sizes[d]), graph::OnOutside::trap});
      } else {
        node.targets.push_back(
            {Expr::iota(static_cast<int32_t>(static_cast<size_t>(lists) + d - by_data)), graph::OnOutside::trap});
      }
    }
  }
  node.space = as_sizes(space);
  node.loads.push_back({maker.random_input(random, type, space), {}, 0});
  bounds.resize(maker.graph.values.size(), 0);
  node.value = Expr::load(static_cast<graph::Id>(node.loads.size() - 1), graph::register_of(type));
  maker.output(maker.add(std::move(node), {type}, dense_strides(random, sizes, pick(random, 0, 3) == 0))[0]);
  return maker;
}

TEST(Scatter, RandomPlacesAsTheInterpreterHasThem) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<int64_t> bounds;
    const GraphMaker maker = random_scatter(random, bounds);
    const plan::KernelPlan plain{plan::Form::scatter, {0}, {1, 1}, {4096}, 2, 0};
    const auto change = [&](plan::KernelPlan& k) { k.tile[0] = 1 << pick(random, 8, 13); };
    const auto fill = [&](const graph::Graph& graph, graph::Id value, std::mt19937_64& r) {
      const int64_t bound = bounds[static_cast<size_t>(value)];
      return bound > 0 ? static_cast<double>(pick(r, 0, bound - 1)) : default_fill(graph, value, r);
    };
    expect_a_candidate_runs(maker, random, seed, plain, plan::scatter_candidates, change, fill);
    if (HasFailure()) return;
  }
}

TEST(Scatter, IndicesOutsideStopTheProgram) {
  for (const Mode mode : {Mode::set, Mode::add}) {
    GraphMaker maker;
    Scatter node;
    node.mode = mode;
    node.base = maker.input(HostType::f32, {10, 64}, {64, 1});
    node.space = {graph::Size(3), graph::Size(64)};
    graph::Ref ids = maker.input(HostType::i64, {3}, {1});
    ids.sizes = node.space;
    ids.strides = {graph::Size(1), graph::Size(0)};
    node.loads = {{ids, {}, 0}};
    node.value = Expr::f32(1);
    node.targets = {{Expr::load(0, graph::Reg::i32), graph::OnOutside::trap}, {Expr::iota(1), graph::OnOutside::trap}};
    maker.output(maker.add(std::move(node), {HostType::f32})[0]);
    const plan::Prepared prepared = as_prepared(maker.graph);
    const plan::Plan plan = plain_plan(prepared, {{plan::Form::scatter, {0}, {1, 1}, {4096}, 2, 0}});
    RunSettings settings;
    settings.compare = false;
    settings.fill = [](const graph::Graph&, graph::Id, std::mt19937_64&) { return 10.0; };
    EXPECT_THROW(first_difference(prepared.graph, plan, settings), Error);
    settings.fill = [](const graph::Graph&, graph::Id, std::mt19937_64&) { return 9.0; };
    EXPECT_EQ(first_difference(prepared.graph, plan, settings), "");
  }
}

}  // namespace
}  // namespace spyre::lower
