// Random attention, on candidates of the planner: each is verified, run and compared with the interpreter.
#include <gtest/gtest.h>

#include <limits>

#include "base/fuzz_for_test.h"
#include "lower/graph_for_test.h"
#include "lower/run_for_test.h"
#include "plan/forms.h"

namespace spyre::lower {
namespace {

using base::HostType;
using graph::Attention;
using graph::Ref;

struct Case {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, depth = 64, value = 64;
  HostType type = HostType::f16;
  enum class Mask { no, boolean, additive } mask = Mask::no;
  bool causal = false, logsumexp = false, param_scale = false;
};

/// A mask that hides whole rows now and then; -inf where additive.
RunSettings settings_for(const graph::Graph& graph, uint64_t seed) {
  RunSettings s;
  s.seed = seed;
  s.params.assign(graph.params.size(), 0.25);
  s.fill = [](const graph::Graph& g, graph::Id value, std::mt19937_64& random) {
    const std::string& name = g.values[static_cast<size_t>(value)].name;
    if (name == "mask_add") return pick(random, 0, 2) == 0 ? -std::numeric_limits<double>::infinity() : 0.5;
    return default_fill(g, value, random);
  };
  return s;
}

graph::Graph attention(Random& random, const Case& c, bool plain) {
  GraphMaker maker;
  const auto input = [&](const std::vector<int64_t>& sizes) {
    return plain ? maker.input(c.type, sizes, dense_strides(random, sizes, false))
                 : maker.random_input(random, c.type, sizes);
  };
  Attention node;
  node.q = input({c.batch, c.heads, c.queries, c.depth});
  node.k = input({c.batch, c.kv_heads, c.keys, c.depth});
  node.v = input({c.batch, c.kv_heads, c.keys, c.value});
  if (c.mask != Case::Mask::no) {
    const bool boolean = c.mask == Case::Mask::boolean;
    node.mask = maker.random_input(random, boolean ? HostType::b8 : c.type, {c.batch, c.heads, c.queries, c.keys});
    maker.graph.values.back().name = boolean ? "mask_bool" : "mask_add";
  }
  node.causal = c.causal;
  node.with_logsumexp = c.logsumexp;
  node.scale = graph::Expr::f32(0.3);
  if (c.param_scale) {
    maker.graph.params.push_back({"scale", true});
    node.scale = graph::Expr::of_param(0, true);
  }
  std::vector<HostType> types{c.type};
  if (c.logsumexp) types.push_back(HostType::f32);
  const std::vector<Ref> results = maker.add(node, types);
  if (pick(random, 0, 1) == 0)  // [batch, queries, heads, value] in memory
    maker.graph.values[static_cast<size_t>(results[0].value)].strides =
        as_sizes({c.queries * c.heads * c.value, c.value, c.heads * c.value, 1});
  for (const Ref& r : results) maker.output(graph::whole(maker.graph, r.value));
  return maker.graph;
}

/// Runs the first legal candidate, the last and a random one. Returns how many were legal.
int run_attention(const graph::Graph& graph, Random& random, uint64_t seed, uint64_t scramble, bool modes) {
  plan::KernelPlan kernel;
  kernel.form = plan::Form::attention;
  kernel.nodes = {0};
  const auto plan_of = [&](const plan::KernelPlan& k) { return plain_plan(as_prepared(graph), {k}, scramble); };
  const plan::Plan plan = plan_of(kernel);
  const device::Description& description = for_test::test_device().description();
  const plan::Context context{graph, plan, description};
  EXPECT_TRUE(plan::attention_accepts(context, kernel.nodes)) << "seed " << seed << "\n" << graph::print(graph);
  const auto candidates = plan::attention_candidates(context, kernel.nodes);
  std::vector<size_t> legal;
  std::string why;
  for (size_t c = 0; c < candidates.size(); ++c) {
    if (price(graph, candidates[c], plan, description, &why) >= 0)
      legal.push_back(c);
    else if (c + 1 == candidates.size())
      ADD_FAILURE() << "seed " << seed << ": the last candidate is not legal: " << why << "\n" << graph::print(graph);
  }
  if (legal.empty()) return 0;
  RunSettings settings = settings_for(graph, seed);
  settings.checker = modes;
  for (const size_t c : {legal.front(), legal.back(), one_of(random, legal)})
    expect_runs_like_interpreter(graph, plan_of(candidates[c]), settings);
  if (modes) {
    settings.checker = false;
    settings.random_order = seed + 1;
    expect_runs_like_interpreter(graph, plan_of(candidates[legal.front()]), settings);
  }
  return static_cast<int>(legal.size());
}

Case random_case(Random& random) {
  Case c;
  c.batch = pick(random, 1, 3);
  c.kv_heads = pick(random, 1, 3);
  c.heads = c.kv_heads * one_of<int64_t>(random, {1, 1, 2, 3});
  c.queries = one_of<int64_t>(random, {1, 1, 2, 17, 64, 65, 128});
  c.keys = one_of<int64_t>(random, {1, 3, 63, 64, 100, 128, 200, 260});
  c.depth = one_of<int64_t>(random, {8, 16, 32, 64, 80, 96, 128});
  c.value = pick(random, 0, 2) == 0 ? one_of<int64_t>(random, {1, 16, 33, 128}) : c.depth;
  c.type = one_of<HostType>(random, {HostType::f16, HostType::f16, HostType::bf16, HostType::f32});
  c.mask = one_of<Case::Mask>(random, {Case::Mask::no, Case::Mask::boolean, Case::Mask::additive});
  c.causal = pick(random, 0, 2) == 0;
  c.logsumexp = pick(random, 0, 2) == 0;
  c.param_scale = pick(random, 0, 3) == 0;
  return c;
}

TEST(Attention, RandomOnesAreTheInterpreters) {
  const auto cases = static_cast<uint64_t>(base::fuzz_cases(40, "SPYRE_FUZZ_FORMS"));
  const uint64_t start = base::fuzz_seed(1);
  for (uint64_t seed = start; seed < start + cases && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    Case c = random_case(random);
    if (c.batch * c.heads * c.queries * c.keys > 60'000) c.heads = c.kv_heads = c.batch = 1;
    const graph::Graph graph = attention(random, c, pick(random, 0, 2) == 0);
    const bool scramble = pick(random, 0, 3) == 0;
    EXPECT_GT(run_attention(graph, random, seed, scramble ? seed : 0, seed % 8 == 0), 0);
  }
}

/// Blocks of keys: causal bounds, a last block that is not full, and the state carried between them.
TEST(Attention, StreamsKeys) {
  uint64_t seed = 100;
  for (const bool causal : {false, true}) {
    for (const Case::Mask mask : {Case::Mask::no, Case::Mask::boolean, Case::Mask::additive}) {
      Random random(++seed);
      Case c{1, 2, 1, 150, 300, 64, 64, HostType::f16, mask, causal, true, false};
      const graph::Graph graph = attention(random, c, true);
      const plan::Plan base = plain_plan(as_prepared(graph), {});
      for (const std::vector<int64_t>& tile : {std::vector<int64_t>{64, 128}, {32, 64}, {150, 192}}) {
        plan::KernelPlan kernel;
        kernel.form = plan::Form::attention;
        kernel.nodes = {0};
        kernel.grid = {1, 1, 2, tile[0] == 32 ? 2 : 1, causal || tile[0] == 32 ? 1 : 3};
        kernel.tile = {tile[0], tile[1], 1};
        expect_runs_like_interpreter(graph, plain_plan(as_prepared(graph), {kernel}), settings_for(graph, seed));
      }
    }
  }
}

/// Heads of half a stick, a quarter, one and a half, that lie next to each other: moved together, and one by one.
TEST(Attention, ShortHeadsAreMovedTogether) {
  uint64_t seed = 200;
  for (const int64_t depth : {16, 32, 48, 96}) {
    for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{70, 100}, {1, 130}}) {
      Random random(++seed);
      const int64_t heads = depth == 32 ? 6 : 4, batch = 2;
      GraphMaker maker;
      const auto input = [&](int64_t rows) {  // [batch, rows, heads, depth] in memory
        return maker.input(HostType::f16, {batch, heads, rows, depth}, {rows * heads * depth, depth, heads * depth, 1});
      };
      Attention node;
      node.q = input(queries), node.k = input(keys), node.v = input(keys);
      if (pick(random, 0, 1) == 0) {
        Ref mask = maker.input(HostType::f16, {batch, 1, queries, keys}, {queries * keys, 0, keys, 1});
        maker.graph.values.back().name = "mask_add";
        mask.sizes[1] = heads;
        node.mask = mask;
      } else {
        node.causal = true;
      }
      node.scale = graph::Expr::f32(0.3);
      const Ref y = maker.add(node, {HostType::f16})[0];
      maker.graph.values[static_cast<size_t>(y.value)].strides =
          as_sizes({queries * heads * depth, depth, heads * depth, 1});
      maker.output(graph::whole(maker.graph, y.value));
      plan::KernelPlan kernel;
      kernel.form = plan::Form::attention;
      kernel.nodes = {0};
      const auto plan_of = [&](const plan::KernelPlan& k) {
        plan::Plan plan = plain_plan(as_prepared(maker.graph), {k});
        for (plan::Home& home : plan.homes)  // rows of all heads, as plan/placements.h puts them
          home.geometry = layout::default_placement({home.geometry.storage_elements / (heads * depth), heads * depth},
                                                    {heads * depth, 1}, HostType::f16, false)
                              .geometry;
        if (node.mask) plan.homes[3] = plain_plan(as_prepared(maker.graph), {k}).homes[3];
        return plan;
      };
      const plan::Plan plan = plan_of(kernel);
      const device::Description& description = for_test::test_device().description();
      int together = 0;
      for (const plan::KernelPlan& k : plan::attention_candidates({maker.graph, plan, description}, kernel.nodes)) {
        if (k.tile[2] == 1 || together > 2 || price(maker.graph, k, plan, description) < 0) continue;
        ++together;
        RunSettings settings = settings_for(maker.graph, seed);
        settings.checker = together == 2;
        expect_runs_like_interpreter(maker.graph, plan_of(k), settings);
      }
      EXPECT_GT(together, 0) << "depth " << depth;
    }
  }
}

TEST(Attention, ModelShapesUseManyCores) {
  const device::Description& description = for_test::test_device().description();
  for (const Case& c :
       {Case{8, 12, 12, 128, 128, 32, 32}, Case{1, 9, 3, 256, 256, 64, 64, HostType::bf16, Case::Mask::no, true},
        Case{4, 32, 8, 1, 512, 64, 64, HostType::bf16, Case::Mask::boolean}}) {
    Random random(7);
    const graph::Graph graph = attention(random, c, true);
    plan::KernelPlan kernel;
    kernel.form = plan::Form::attention;
    kernel.nodes = {0};
    const plan::Plan plan = plain_plan(as_prepared(graph), {kernel});
    int64_t best = -1, one = -1;
    for (const plan::KernelPlan& k : plan::attention_candidates({graph, plan, description}, kernel.nodes)) {
      one = price(graph, k, plan, description);
      if (one >= 0 && (best < 0 || one < best)) best = one;
    }
    EXPECT_GT(best, 0);
    EXPECT_LT(best * 6, one);
  }
}

}  // namespace
}  // namespace spyre::lower
