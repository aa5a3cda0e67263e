// Whole graphs through prepare, choose (with the real price), lower and the card, against the interpreter: the best
// plan and random ones.
#include <gtest/gtest.h>

#include "graph/import.h"
#include "lower/run_for_test.h"
#include "plan/axes.h"

namespace spyre::lower {
namespace {

using graph::Arg;
using graph::HostType;
using graph::Ref;
using graph::Size;

constexpr std::monostate None{};
std::vector<Size> sizes(std::initializer_list<int64_t> list) { return {list.begin(), list.end()}; }

struct Build {
  graph::Builder b;

  Ref in(std::vector<Size> shape, HostType type = HostType::f16) {
    auto strides = graph::contiguous(shape);
    return b.input("", type, std::move(shape), std::move(strides));
  }
  std::vector<Arg> all(std::string_view overload, const std::vector<Arg>& args) {
    return b.call(overload, args, {std::string(overload), "m.py:1"});
  }
  Ref op(std::string_view overload, const std::vector<Arg>& args) { return std::get<Ref>(all(overload, args).at(0)); }
  Ref linear(const Ref& x, int64_t k, int64_t n) { return op("aten::linear", {x, in(sizes({n, k})), in(sizes({n}))}); }

  /// Integer inputs are below `bound`; floats small, so that deep graphs stay in range.
  void run(const std::vector<Ref>& outputs, int64_t bound = 4, int random_plans = 3) {
    for (const Ref& r : outputs) b.output(r);
    const plan::Prepared prepared = plan::prepare(graph::instantiate(std::move(b).finish(), {}));
    const device::Description& description = for_test::test_device().description();
    for (int seed = 0; seed <= random_plans; ++seed) {
      SCOPED_TRACE(seed);
      std::vector<layout::Geometry> inputs;
      for (const graph::Id id : prepared.graph.inputs) {
        const graph::Value& v = prepared.graph.values[static_cast<size_t>(id)];
        auto geometry =
            layout::default_placement(plan::numbers(v.sizes), plan::numbers(v.strides), v.type, false).geometry;
        if (seed == 2 && geometry.device_elements > 0) geometry = geometry.scrambled(static_cast<uint64_t>(id) + 1);
        inputs.push_back(std::move(geometry));
      }
      std::string why;
      plan::Options options;
      options.random_seed = static_cast<uint64_t>(seed);
      options.repack = false;  // copies of inputs are the engine's to make
      options.why = &why;
      plan::Plan plan;
      try {
        plan = plan::choose(
            prepared, inputs, description,
            [&](const plan::KernelPlan& k, const plan::Plan& p) {
              return price(prepared.graph, k, p, description, &why);
            },
            options);
      } catch (const Error& e) {
        ADD_FAILURE() << e.what() << "\n" << graph::print(prepared.graph);
        return;
      }
      RunSettings settings;
      settings.seed = static_cast<uint64_t>(seed) + 1;
      settings.fill = [&](const graph::Graph& g, graph::Id v, std::mt19937_64& random) -> double {
        const HostType type = g.values[static_cast<size_t>(v)].type;
        if (graph::register_of(type) == graph::Reg::f32)
          return std::uniform_real_distribution<double>(-0.5, 0.5)(random);
        return static_cast<double>(random() % static_cast<uint64_t>(type == HostType::b8 ? 2 : bound));
      };
      expect_runs_like_interpreter(prepared.graph, plan, settings);
      if (::testing::Test::HasFailure()) return;
    }
  }
};

struct Shape {
  int64_t batch, length, width, heads, inner;
  bool by_products = false;  ///< attention written out
};

Ref attention(Build& g, const Ref& x, const Ref& mask, const Shape& s) {
  const int64_t depth = s.width / s.heads;
  const auto heads = [&](Ref y, bool keys) {
    y = g.op("aten::view", {y, sizes({s.batch, s.length, s.heads, depth})});
    return g.op("aten::permute", {y, keys ? sizes({0, 2, 3, 1}) : sizes({0, 2, 1, 3})});
  };
  const auto flat = [&](Ref y, std::vector<Size> shape) {
    y = g.op("aten::clone", {y, std::string("contiguous_format")});
    return g.op("aten::view", {y, std::move(shape)});
  };
  const Ref q = g.linear(x, s.width, s.width), k = g.linear(x, s.width, s.width), v = g.linear(x, s.width, s.width);
  Ref o;
  if (!s.by_products) {
    o = g.op("aten::scaled_dot_product_attention",
             {heads(q, false), heads(k, false), heads(v, false), mask, 0.0, false, None, false});
  } else {
    Ref p = g.op("aten::bmm", {flat(heads(q, false), sizes({s.batch * s.heads, s.length, depth})),
                               flat(heads(k, true), sizes({s.batch * s.heads, depth, s.length}))});
    p = g.op("aten::view", {p, sizes({s.batch, s.heads, s.length, s.length})});
    p = g.op("aten::add.Tensor", {g.op("aten::mul.Tensor", {p, 0.25}), mask, Size(1)});
    p = g.op("aten::_softmax", {p, Size(-1), false});
    p = g.op("aten::view", {p, sizes({s.batch * s.heads, s.length, s.length})});
    o = g.op("aten::bmm", {p, flat(heads(v, false), sizes({s.batch * s.heads, s.length, depth}))});
    o = g.op("aten::view", {o, sizes({s.batch, s.heads, s.length, depth})});
  }
  o = g.op("aten::permute", {o, sizes({0, 2, 1, 3})});
  return g.op("aten::reshape", {o, sizes({s.batch, s.length, s.width})});
}

void bert_layer(const Shape& s) {
  Build g;
  const auto norm = [&](const Ref& x) {
    return g.op("aten::layer_norm", {x, sizes({s.width}), g.in(sizes({s.width})), g.in(sizes({s.width})), 1e-5, true});
  };
  const Ref ids = g.in(sizes({s.batch, s.length}), HostType::i64);
  Ref mask = g.op("aten::view", {g.in(sizes({s.batch, s.length}), HostType::b8), sizes({s.batch, 1, 1, s.length})});
  mask = g.op("aten::where.ScalarOther",
              {mask, g.op("aten::zeros_like", {mask, HostType::f16, None, None, None, None}), -1000.0});
  mask = g.op("aten::to.dtype", {mask, HostType::f16, false, false, None});
  mask = g.op("aten::expand", {mask, sizes({s.batch, 1, s.length, s.length}), false});
  const Ref positions =
      g.op("aten::arange.start_step", {Size(0), Size(s.length), Size(1), HostType::i64, None, None, None});
  Ref x = g.op("aten::embedding", {g.in(sizes({50, s.width})), ids, Size(-1), false, false});
  x = g.op("aten::add.Tensor",
           {x, g.op("aten::embedding", {g.in(sizes({64, s.width})), positions, Size(-1), false, false}), Size(1)});
  x = norm(x);
  x = norm(g.op("aten::add.Tensor", {x, g.linear(attention(g, x, mask, s), s.width, s.width), Size(1)}));
  const Ref h = g.op("aten::gelu", {g.linear(x, s.width, s.inner), std::string("none")});
  g.run({norm(g.op("aten::add.Tensor", {g.linear(h, s.inner, s.width), x, Size(1)}))}, 50);
}

TEST(WholeGraphs, BertLayer) { bert_layer({2, 12, 64, 2, 128}); }
TEST(WholeGraphs, BertLayerOfOddSizes) { bert_layer({1, 7, 48, 3, 100}); }
TEST(WholeGraphs, BertLayerWithAttentionByProducts) { bert_layer({2, 12, 64, 2, 128, true}); }

TEST(WholeGraphs, InPlaceUpdates) {
  Build g;
  const Ref x = g.in(sizes({12, 80})), cache = g.in(sizes({9, 4, 32})), y = g.in(sizes({12, 80})),
            rows = g.in(sizes({2, 4, 32})), counter = g.in(sizes({}), HostType::i64);
  const Ref old = g.op("aten::exp", {x});
  const Ref sum = g.op("aten::add.Tensor", {x, y, Size(1)});
  const Ref turned = g.op("aten::flip", {y, sizes({0})});
  const Ref updated = g.op("aten::slice_scatter", {cache, rows, Size(0), Size(3), Size(5), Size(1)});
  g.b.mutate(0, sum);
  g.b.mutate(2, turned);
  g.b.mutate(1, updated);
  g.b.mutate(4, g.op("aten::add.Tensor", {counter, Size(1), Size(1)}));
  g.run({old, g.op("aten::neg", {sum}), g.op("aten::sum.dim_IntList", {updated, sizes({0}), false, None})});
}

/// One kernel adds to the old elements of what its other product replaces.
TEST(WholeGraphs, ProductsBesideEachOtherReadBeforeTheyReplace) {
  Build g;
  const Ref x = g.in(sizes({96, 80})), w = g.in(sizes({80, 128})), w2 = g.in(sizes({80, 128})),
            y = g.in(sizes({96, 128}));
  const Ref sum = g.op("aten::add.Tensor", {y, g.op("aten::mm", {x, w}), Size(1)});
  g.b.mutate(3, g.op("aten::mm", {x, w2}));
  g.run({sum});
}

TEST(WholeGraphs, SwappedInputs) {
  Build g;
  const Ref x = g.in(sizes({12, 80})), y = g.in(sizes({12, 80}));
  g.b.mutate(0, y);
  g.b.mutate(1, x);
  g.run({});
}

TEST(WholeGraphs, IndexedCacheUpdate) {
  Build g;
  const Ref cache = g.in(sizes({8, 40, 64})), rows = g.in(sizes({3, 40, 64})), index = g.in(sizes({3}), HostType::i64);
  const Ref updated = g.op("aten::index_put", {cache, std::vector<std::optional<Ref>>{index}, rows, false});
  g.b.mutate(0, updated);
  g.run({g.op("aten::mean.dim", {updated, sizes({-1}), false, None})}, 8);
}

TEST(WholeGraphs, RotaryAndGroupedHeads) {
  Build g;
  const Ref x = g.in(sizes({1, 10, 64})), cos = g.in(sizes({10, 32})), sin = g.in(sizes({10, 32}));
  const auto rotated = [&](Ref y, int64_t heads) {
    y = g.op("aten::view", {y, sizes({1, 10, heads, 32})});
    y = g.op("aten::permute", {y, sizes({0, 2, 1, 3})});
    const Ref a = g.op("aten::slice.Tensor", {y, Size(3), Size(0), Size(16), Size(1)}),
              b = g.op("aten::slice.Tensor", {y, Size(3), Size(16), Size(32), Size(1)});
    const Ref half = g.op("aten::cat", {std::vector<Ref>{g.op("aten::neg", {b}), a}, Size(-1)});
    return g.op("aten::add.Tensor",
                {g.op("aten::mul.Tensor", {y, cos}), g.op("aten::mul.Tensor", {half, sin}), Size(1)});
  };
  const Ref q = rotated(g.linear(x, 64, 128), 4), k = rotated(g.linear(x, 64, 64), 2);
  Ref v = g.op("aten::view", {g.linear(x, 64, 64), sizes({1, 10, 2, 32})});
  v = g.op("aten::permute", {v, sizes({0, 2, 1, 3})});
  Ref o = g.op("aten::scaled_dot_product_attention", {q, k, v, None, 0.0, true, None, true});
  o = g.op("aten::reshape", {g.op("aten::permute", {o, sizes({0, 2, 1, 3})}), sizes({1, 10, 128})});
  const Ref gate = g.op("aten::silu", {g.linear(o, 128, 96)}), up = g.linear(o, 128, 96);
  const Ref y = g.linear(g.op("aten::mul.Tensor", {gate, up}), 96, 64);
  g.run({g.op("aten::rms_norm", {g.op("aten::add.Tensor", {x, y, Size(1)}), sizes({64}), g.in(sizes({64})), 1e-6})});
}

TEST(WholeGraphs, SmallConvolutionNet) {
  Build g;
  const Ref x = g.in(sizes({1, 3, 8, 8}));
  Ref y = g.op("aten::convolution", {x, g.in(sizes({8, 3, 3, 3})), g.in(sizes({8})), sizes({1, 1}), sizes({1, 1}),
                                     sizes({1, 1}), false, sizes({0, 0}), Size(1)});
  y = g.op("aten::relu", {y});
  y = g.op("aten::mean.dim", {y, sizes({2, 3}), false, None});
  y = g.linear(y, 8, 10);
  g.run({g.op("aten::_log_softmax", {y, Size(1), false}), g.op("aten::argmax", {y, Size(1), false})});
}

TEST(WholeGraphs, NothingAndConstants) {
  Build g;
  const Ref x = g.in(sizes({0, 4})), y = g.in(sizes({3, 4}));
  g.run({g.op("aten::exp", {x}), g.op("aten::sum.dim_IntList", {x, sizes({0}), false, None}),
         g.op("aten::cat", {std::vector<Ref>{x, y}, Size(0)}),
         g.op("aten::full", {sizes({5, 70}), 2.5, HostType::f16, None, None, None})});
}

}  // namespace
}  // namespace spyre::lower
