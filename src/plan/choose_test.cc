// choose(): which nodes share a kernel, what is folded, what is stored in place. The price is made up: a fixed time per
// kernel and one per byte moved.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "device/description.h"
#include "graph/import.h"
#include "plan/axes.h"
#include "plan/plan.h"

namespace spyre::plan {
namespace {

using graph::Builder;
using graph::Graph;
using graph::HostType;
using graph::Ref;
using Kind = Home::Kind;

int64_t bytes_of(const Graph& g, const Plan& plan, const KernelPlan& kernel) {
  int64_t bytes = 0;
  std::set<Id> loaded;
  for (Id n : kernel.nodes) {
    const graph::Node& node = g.nodes[at(n)];
    for (const Ref* ref : graph::reads(node.kind)) {
      const Home& home = plan.homes[at(ref->value)];
      const Id producer = g.values[at(ref->value)].node;
      const bool inside = std::count(kernel.nodes.begin(), kernel.nodes.end(), producer) > 0;
      int64_t points = 2;
      for (const graph::Size& s : ref->sizes) points *= number(s);
      if (!inside && home.kind != Kind::resident && loaded.insert(ref->value).second) bytes += points;
    }
    for (Id r : node.results) bytes += plan.homes[at(r)].geometry.device_elements * 2;
  }
  return bytes;
}

struct Planned {
  Prepared prepared;
  Plan plan;
  int prices = 0;

  explicit Planned(const Graph& graph, const Options& options = {}) : prepared(prepare(graph::instantiate(graph, {}))) {
    const Graph& g = prepared.graph;
    std::vector<layout::Geometry> inputs;
    for (Id i : g.inputs) {
      const graph::Value& v = g.values[at(i)];
      inputs.push_back(layout::default_placement(numbers(v.sizes), numbers(v.strides), v.type, false).geometry);
    }
    const auto price = [&](const KernelPlan& kernel, const Plan& p) {
      ++prices;
      return int64_t{1'000'000} + 10 * bytes_of(g, p, kernel);
    };
    plan = choose(prepared, inputs, device::current_description(), price, options);
    EXPECT_EQ(plan::parse(print(plan, g)), plan);
    is_legal();
  }

  /// Every node once in a kernel or folded, and behind what it reads; nothing resident is read elsewhere; nothing reads
  /// the old elements of an input after they were replaced.
  void is_legal() const {
    const Graph& g = prepared.graph;
    std::vector<int> kernel_of(g.nodes.size(), -1);
    for (size_t k = 0; k < plan.kernels.size(); ++k) {
      for (Id n : plan.kernels[k].nodes) {
        EXPECT_EQ(kernel_of[at(n)], -1);
        kernel_of[at(n)] = static_cast<int>(k);
      }
    }
    std::vector<int> replaced(g.values.size(), INT32_MAX);
    for (size_t v = 0; v < g.values.size(); ++v) {
      if (plan.homes[v].kind == Kind::replaces)
        replaced[at(plan.homes[v].through.value)] = kernel_of[at(g.values[v].node)];
    }
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      const Kind result = plan.homes[at(g.nodes[n].results[0])].kind;
      if (result == Kind::folded) {
        EXPECT_EQ(kernel_of[n], -1);
        continue;
      }
      ASSERT_GE(kernel_of[n], 0) << "node " << n;
      for (const Ref* ref : graph::reads(g.nodes[n].kind)) {
        Id value = ref->value;
        EXPECT_LE(kernel_of[n], replaced[at(value)]);
        while (plan.homes[at(value)].kind == Kind::folded) value = plan.homes[at(value)].through.value;
        const Home& home = plan.homes[at(value)];
        const Id producer = g.values[at(value)].node;
        if (producer == none) continue;
        EXPECT_LE(kernel_of[at(producer)], kernel_of[n]);
        if (home.kind == Kind::resident) {
          EXPECT_EQ(kernel_of[at(producer)], kernel_of[n]);
        }
        EXPECT_NE(home.kind, Kind::dead);
      }
    }
  }

  /// "matmul 0 1 | rows 2 3"
  std::string kernels() const {
    std::string text;
    for (const KernelPlan& k : plan.kernels) {
      text += (text.empty() ? "" : " | ") + std::string(form_name(k.form));
      for (Id n : k.nodes) text += " " + std::to_string(n);
    }
    return text;
  }
  const Home& home(Id value) const { return plan.homes[at(value)]; }
  std::string text() const { return graph::print(prepared.graph) + print(plan, prepared.graph); }
};

struct Build {
  Builder b;
  Ref in(std::vector<graph::Size> sizes, HostType type = HostType::f16) {
    auto strides = graph::contiguous(sizes);
    return b.input("", type, std::move(sizes), std::move(strides));
  }
  Ref op(std::string_view overload, const std::vector<graph::Arg>& args) {
    return std::get<Ref>(b.call(overload, args, {std::string(overload), "m.py:1"}).at(0));
  }
  Planned plan(const std::vector<Ref>& outputs, const Options& options = {}) {
    Builder copy = b;
    for (const Ref& r : outputs) copy.output(r);
    return Planned(std::move(copy).finish(), options);
  }
};

std::vector<graph::Size> sizes(std::initializer_list<int64_t> list) { return {list.begin(), list.end()}; }
constexpr std::monostate None{};

TEST(Choose, LayerNormIsOneKernel) {
  Build g;
  const Ref x = g.in({8, 128, 384}), w = g.in({384}), b = g.in({384});
  const Planned p = g.plan({g.op("aten::layer_norm", {x, sizes({384}), w, b, 1e-5, true})});
  EXPECT_EQ(p.kernels(), "rows 0 1 2") << p.text();
  EXPECT_EQ(p.home(3).kind, Kind::resident);  // mean
  EXPECT_EQ(p.home(5).kind, Kind::dead);      // count
}

TEST(Choose, SoftmaxIsOneKernel) {
  Build g;
  const Ref x = g.in({4, 12, 128, 128}), mask = g.in({4, 1, 1, 128});
  const Ref scaled = g.op("aten::div.Tensor", {x, g.in({})});
  const Ref sum = g.op("aten::add.Tensor", {scaled, mask, graph::Size(1)});
  const Planned p = g.plan({g.op("aten::_softmax", {sum, graph::Size(-1), false})});
  EXPECT_EQ(p.kernels(), "rows 0 1 2 3") << p.text();
}

TEST(Choose, LinearTakesTheMapsBehindIt) {
  Build g;
  const Ref x = g.in({8, 128, 384}), w = g.in({1536, 384}), b = g.in({1536}), r = g.in({8, 128, 1536});
  const Ref y = g.op("aten::linear", {x, w, b});
  const Ref gelu = g.op("aten::gelu", {y, std::string("none")});
  const Planned p = g.plan({g.op("aten::add.Tensor", {r, gelu, graph::Size(1)})});
  EXPECT_EQ(p.kernels(), "matmul 0 1 2 3") << p.text();
  EXPECT_EQ(p.home(p.prepared.graph.outputs[0].value).kind, Kind::output);
}

TEST(Choose, QueriesKeysAndValuesAreOneKernel) {
  Build g;
  const Ref x = g.in({8, 128, 384});
  std::vector<Ref> outputs;
  for (int i = 0; i < 3; ++i) outputs.push_back(g.op("aten::linear", {x, g.in({384, 384}), g.in({384})}));
  EXPECT_EQ(g.plan(outputs).kernels(), "matmul 0 1 2 3 4 5");
}

TEST(Choose, GatedNetworkMultipliesInsideOneKernel) {
  Build g;
  const Ref x = g.in({64, 256});
  const Ref gate = g.op("aten::linear", {x, g.in({512, 256}), None});
  const Ref up = g.op("aten::linear", {x, g.in({512, 256}), None});
  const Ref y = g.op("aten::mul.Tensor", {g.op("aten::silu", {gate}), up});
  const Planned p = g.plan({g.op("aten::linear", {y, g.in({256, 512}), None})});
  EXPECT_EQ(p.plan.kernels.size(), 2U) << p.text();
}

/// Heads of keys that are repeated behind their product would repeat what the product beside it stores.
TEST(Choose, RepeatedResultsStayApartFromStoredOnes) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Build g;
    const Ref x = g.in({1, 16, 64});
    const auto heads = [&] {
      const Ref y = g.op("aten::linear", {x, g.in({32, 64}), None});
      return g.op("aten::view", {y, sizes({1, 16, 2, 16})});
    };
    const Ref k = heads(), v = heads();
    const Ref repeated =
        g.op("aten::exp",
             {g.op("aten::expand", {g.op("aten::unsqueeze", {k, graph::Size(3)}), sizes({1, 16, 2, 2, 16}), false})});
    Options options;
    options.random_seed = seed;
    const Planned p = g.plan({repeated, v}, options);
    for (const KernelPlan& kernel : p.plan.kernels) {
      const auto has = [&](Id output) {
        const Id node = p.prepared.graph.values[at(p.prepared.graph.outputs[at(output)].value)].node;
        return std::count(kernel.nodes.begin(), kernel.nodes.end(), node) > 0;
      };
      EXPECT_FALSE(has(0) && has(1)) << p.text();
    }
  }
}

/// Fewer heads of keys than of queries: products of other sizes have their own kernel.
TEST(Choose, ProductsOfOtherSizesStayApart) {
  Build g;
  const Ref x = g.in({64, 256});
  const Ref q = g.op("aten::linear", {x, g.in({256, 256}), None}), k = g.op("aten::linear", {x, g.in({64, 256}), None});
  const Ref v = g.op("aten::linear", {x, g.in({64, 256}), None});
  EXPECT_EQ(g.plan({q, k, v}).kernels(), "matmul 0 | matmul 1 2");
}

TEST(Choose, NormsJoinTheProductBeforeThem) {
  Build g;
  const Ref x = g.in({8, 128, 1536}), w = g.in({384, 1536}), b = g.in({384}), r = g.in({8, 128, 384});
  const Ref sum = g.op("aten::add.Tensor", {r, g.op("aten::linear", {x, w, b}), graph::Size(1)});
  const Planned p = g.plan({g.op("aten::layer_norm", {sum, sizes({384}), g.in({384}), g.in({384}), 1e-5, true})});
  ASSERT_EQ(p.plan.kernels.size(), 1u) << p.text();
  EXPECT_EQ(p.plan.kernels[0].form, Form::matmul);
  EXPECT_EQ(p.plan.kernels[0].tile[1], 384) << "whole rows";
}

TEST(Choose, SumsOverOtherAxesThanTheLanesDont) {
  Build g;
  const Ref y = g.op("aten::mm", {g.in({64, 128}), g.in({128, 256})});
  for (const int64_t dim : {0, 1}) {
    const Planned p = g.plan({g.op("aten::sum.dim_IntList", {y, sizes({dim}), false, None})});
    EXPECT_EQ(p.plan.kernels.size(), dim == 1 ? 1u : 2u) << p.text();
  }
}

TEST(Choose, MadeTwiceIsPricedOnce) {
  Build g;
  const auto layer = [&](const Ref& x, const Ref& w) {
    const Ref y = g.op("aten::linear", {x, w, None});
    const Ref n = g.op("aten::layer_norm", {y, sizes({256}), None, None, 1e-5, true});
    return g.op("aten::relu", {n});
  };
  Ref x = g.in({64, 256});
  std::vector<Ref> w;
  for (int i = 0; i < 12; ++i) w.push_back(g.in({256, 256}));
  const Ref one = layer(x, w[0]), two = layer(one, w[1]);
  const int prices = g.plan({two}).prices;
  Ref many = two;
  for (size_t i = 2; i < w.size(); ++i) many = layer(many, w[i]);
  const Planned p = g.plan({many});
  EXPECT_EQ(p.plan.kernels.size(), 12u) << p.text();
  EXPECT_LE(p.prices, prices * 3 / 2);
  for (size_t k = 2; k < p.plan.kernels.size() - 1; ++k) {
    EXPECT_EQ(p.plan.kernels[k].grid, p.plan.kernels[k - 1].grid);
    EXPECT_EQ(p.plan.kernels[k].tile, p.plan.kernels[k - 1].tile);
  }
}

/// Attention as a model writes it out by products: heads are split by permuted copies.
Planned attention_block(const Options& options = {}) {
  Build g;
  const Ref x = g.in({2, 64, 128});
  const auto heads = [&](const Ref& w, bool keys) {
    Ref y = g.op("aten::linear", {x, w, None});
    y = g.op("aten::view", {y, sizes({2, 64, 4, 32})});
    y = g.op("aten::permute", {y, keys ? sizes({0, 2, 3, 1}) : sizes({0, 2, 1, 3})});
    y = g.op("aten::clone", {y, std::string("contiguous_format")});
    return g.op("aten::view", {y, keys ? sizes({8, 32, 64}) : sizes({8, 64, 32})});
  };
  const Ref q = heads(g.in({128, 128}), false), k = heads(g.in({128, 128}), true), v = heads(g.in({128, 128}), false);
  Ref s = g.op("aten::bmm", {q, k});
  s = g.op("aten::mul.Tensor", {s, 0.25});
  s = g.op("aten::_softmax", {s, graph::Size(-1), false});
  Ref o = g.op("aten::bmm", {s, v});
  o = g.op("aten::view", {o, sizes({2, 4, 64, 32})});
  o = g.op("aten::permute", {o, sizes({0, 2, 1, 3})});
  o = g.op("aten::clone", {o, std::string("contiguous_format")});
  o = g.op("aten::view", {o, sizes({128, 128})});
  return g.plan({g.op("aten::mm", {o, g.in({128, 128})})}, options);
}

TEST(Choose, PermutedCopiesAreFolded) {
  const Planned p = attention_block();
  int folded = 0, copies = 0;
  for (const Home& h : p.plan.homes) folded += h.kind == Kind::folded ? 1 : 0;
  for (const KernelPlan& k : p.plan.kernels) copies += k.form == Form::rows ? 1 : 0;
  EXPECT_GE(folded, 3) << p.text();
  EXPECT_LE(copies, 2) << p.text();  // softmax, and a transposition of k where the product doesn't store it so
}

TEST(Choose, RepeatedHeadsAreFolded) {
  Build g;
  const Ref k = g.in({2, 4, 64, 32}), q = g.in({32, 16, 32});
  Ref r = g.op("aten::unsqueeze", {k, graph::Size(2)});
  r = g.op("aten::expand", {r, sizes({2, 4, 4, 64, 32}), false});
  r = g.op("aten::clone", {r, std::string("contiguous_format")});
  r = g.op("aten::view", {r, sizes({32, 64, 32})});
  const Planned p = g.plan({g.op("aten::bmm", {q, g.op("aten::transpose.int", {r, graph::Size(1), graph::Size(2)})})});
  EXPECT_EQ(p.plan.kernels.size(), 1u) << p.text();
}

TEST(Choose, CopyWithAGatheringReaderStays) {
  Build g;
  const Ref x = g.in({16, 8}), index = g.in({4}, HostType::i64);
  const Ref copy = g.op("aten::clone", {g.op("aten::t", {x}), std::string("contiguous_format")});
  const Planned p = g.plan({g.op("aten::index_select", {copy, graph::Size(0), index})});
  for (const Home& h : p.plan.homes) EXPECT_NE(h.kind, Kind::folded) << p.text();
}

TEST(Choose, InPlaceAdditionStoresOverItsInput) {
  Build g;
  const Ref x = g.in({64, 256}), y = g.in({64, 256});
  const Ref old = g.op("aten::exp", {x});
  const Ref sum = g.op("aten::add.Tensor", {x, y, graph::Size(1)});
  g.b.mutate(0, sum);
  const Planned p = g.plan({old, g.op("aten::neg", {sum})});
  EXPECT_EQ(p.home(sum.value).kind, Kind::replaces) << p.text();
  EXPECT_EQ(p.home(sum.value).through, x);
  EXPECT_EQ(p.plan.kernels.size(), 1u) << p.text();
}

TEST(Choose, OldElementsAreReadBeforeTheyAreReplaced) {
  Build g;
  const Ref x = g.in({64, 256}), y = g.in({64, 256});
  const Ref sum = g.op("aten::add.Tensor", {x, y, graph::Size(1)});
  g.b.mutate(0, sum);
  // Read elsewhere than it is written, and after the sum was made.
  const Ref turned = g.op("aten::mul.Tensor", {g.op("aten::flip", {x, sizes({0})}), y});
  const Planned p = g.plan({turned});
  EXPECT_NE(p.home(sum.value).kind, Kind::replaces) << p.text();
  EXPECT_EQ(p.plan.homes.back().kind, Kind::replaces);
  EXPECT_EQ(p.plan.kernels.size(), 2u) << p.text();
}

TEST(Choose, CacheUpdateIsInPlace) {
  Build g;
  const Ref cache = g.in({8, 128, 64}), rows = g.in({4, 128, 64}), index = g.in({4}, HostType::i64);
  const Ref updated = g.op("aten::index_put", {cache, std::vector<std::optional<Ref>>{index}, rows, false});
  g.b.mutate(0, updated);
  const Planned p = g.plan({g.op("aten::exp", {updated})});
  EXPECT_EQ(p.home(updated.value).kind, Kind::replaces) << p.text();
  EXPECT_EQ(p.kernels(), "scatter 0 | rows 1") << p.text();
}

TEST(Choose, MutationBeginsAtTheOffsetOfItsInput) {
  const Graph g = graph::parse(R"(
input v0 f16 [4:8, 8:1]
v1 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:1]) value(exp(l0))
mutate v0 = v1[4:8, 8:1]
)");
  Prepared prepared = prepare(g);
  for (graph::Node& node : prepared.graph.nodes)
    for (Ref* ref : graph::reads(node.kind))
      if (ref->value == 0) ref->offset = 64;
  prepared.offsets = {64};
  const auto geometry = layout::Geometry::linear(base::Format::dl16, 256);
  const Plan plan =
      choose(prepared, {geometry}, device::current_description(), [](const auto&, const auto&) { return int64_t{1}; });
  EXPECT_EQ(plan.homes[1].kind, Kind::replaces);
  EXPECT_TRUE(plan.homes[1].through.offset.is(64));
  EXPECT_EQ(plan.homes[1].geometry, geometry);
}

TEST(Choose, SamePlanEveryTime) { EXPECT_EQ(attention_block().plan, attention_block().plan); }

TEST(Choose, RandomPlansAreLegal) {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Options options;
    options.random_seed = seed;
    const Planned p = attention_block(options);  // checks
    seen.insert(p.kernels());
  }
  EXPECT_GT(seen.size(), 5u);
}

TEST(Choose, WhatCantBeBuiltIsRefusedByName) {
  const Graph g = graph::parse(R"(
input v0 f16 [4:8, 8:1]
v1 f16 [4:8, 8:1] = map [4, 8] loads(v0[4:8, 8:1]) value(exp(l0)) at "aten.exp" "model.py:7"
output v1[4:8, 8:1]
)");
  const Prepared prepared = prepare(g);
  std::string why = "too large";
  Options options;
  options.why = &why;
  try {
    choose(
        prepared, {layout::Geometry::linear(base::Format::dl16, 64)}, device::current_description(),
        [](const auto&, const auto&) { return int64_t{-1}; }, options);
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::unimplemented);
    for (const char* word : {"aten.exp", "model.py:7", "[4, 8]", "too large"})
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace spyre::plan
