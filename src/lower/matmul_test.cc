// Random products, with and without Maps behind them, on candidates of the planner: each is verified, run and compared
// with the interpreter.
#include <gtest/gtest.h>

#include <tuple>

#include "base/fuzz_for_test.h"
#include "lower/graph_for_test.h"
#include "lower/run_for_test.h"
#include "plan/forms.h"
#include "program/program.h"
#include "runtime/test_device.h"
#include "timing/timeline.h"

namespace spyre::lower {
namespace {

using base::HostType;
using graph::Contract;
using graph::Expr;
using graph::Ref;
using graph::VecOp;
using Role = Contract::Role;

struct Dim {
  Role role;
  int64_t size;
};

/// The reference of an operand over the whole space: stride 0 where it has no such dimension.
graph::Load over_space(const Ref& ref, const std::vector<Dim>& dims, bool is_a) {
  graph::Load load;
  load.ref.value = ref.value;
  load.ref.offset = ref.offset;
  size_t own = 0;
  for (const Dim& d : dims) {
    const bool has = d.role == Role::batch || d.role == Role::k || (d.role == Role::m) == is_a;
    load.ref.sizes.push_back(d.size);
    load.ref.strides.push_back(has ? ref.strides[own] : graph::Size(0));
    own += has ? 1 : 0;
  }
  return load;
}

struct Product {
  std::vector<Dim> dims;
  HostType type = HostType::f16, result = HostType::f16;
};

std::vector<int64_t> sizes_of(const Product& p, bool is_a) {
  std::vector<int64_t> sizes;
  for (const Dim& d : p.dims)
    if (d.role == Role::batch || d.role == Role::k || (d.role == Role::m) == is_a) sizes.push_back(d.size);
  return sizes;
}

std::vector<int64_t> result_sizes(const Product& p) {
  std::vector<int64_t> sizes;
  for (const Dim& d : p.dims)
    if (d.role != Role::k) sizes.push_back(d.size);
  return sizes;
}

Ref add_product(GraphMaker& maker, const Product& p, const Ref& a, const Ref& b, const std::vector<int64_t>& strides) {
  Contract c;
  for (const Dim& d : p.dims) {
    c.space.push_back(d.size);
    c.roles.push_back(d.role);
  }
  c.a = over_space(a, p.dims, true);
  c.b = over_space(b, p.dims, false);
  return maker.add(std::move(c), {p.result}, strides)[0];
}

graph::Load plain(const Ref& ref) {
  graph::Load load;
  load.ref = ref;
  return load;
}

/// value = max(x + bias, 0) * other, in these strides.
Ref add_epilogue(GraphMaker& maker, const Ref& x, const Ref& bias, const Ref& other, HostType type,
                 const std::vector<int64_t>& strides) {
  const auto reg = graph::register_of(type);
  graph::Map m;
  m.space = x.sizes;
  m.loads = {plain(x), plain(bias), plain(other)};
  Expr sum = Expr::make(VecOp::add, {Expr::load(0, reg), Expr::load(1, reg)});
  const Expr zero = reg == graph::Reg::f32 ? Expr::f32(0) : Expr::i32(0);
  m.value = {Expr::make(VecOp::mul, {Expr::make(VecOp::max, {std::move(sum), zero}), Expr::load(2, reg)})};
  return maker.add(std::move(m), {type}, strides)[0];
}

const device::Description& description() { return for_test::test_device().description(); }

plan::Plan plan_with(const graph::Graph& graph, const plan::KernelPlan& kernel, uint64_t scramble,
                     const std::vector<plan::Repack>& repacks = {}) {
  plan::Plan plan = plain_plan(as_prepared(graph), {kernel}, scramble);
  plan.repacks = repacks;
  return plan;
}

plan::KernelPlan all_nodes(const graph::Graph& graph, plan::Form form) {
  plan::KernelPlan k;
  k.form = form;
  for (size_t n = 0; n < graph.nodes.size(); ++n) k.nodes.push_back(static_cast<graph::Id>(n));
  return k;
}

/// Runs candidates of the graph's one kernel: the first legal, the last, and a random one. Returns how many were legal.
int run_matmul(const graph::Graph& graph, Random& random, uint64_t seed, uint64_t scramble, bool modes) {
  const plan::KernelPlan nodes = all_nodes(graph, plan::Form::matmul);
  const plan::Plan plan = plan_with(graph, nodes, scramble);
  int64_t bytes = 0;  // some layouts spend a stick on each element
  for (const plan::Home& home : plan.homes) bytes += home.geometry.device_bytes();
  if (bytes > 20'000'000) return 1;
  const plan::Context context{graph, plan, description()};
  EXPECT_TRUE(plan::matmul_accepts(context, nodes.nodes)) << "seed " << seed << "\n" << graph::print(graph);
  const std::vector<plan::KernelPlan> candidates = plan::matmul_candidates(context, nodes.nodes);
  std::vector<size_t> legal;
  std::string why;
  for (size_t c = 0; c < candidates.size(); ++c) {
    if (price(graph, candidates[c], plan, description(), &why) >= 0)
      legal.push_back(c);
    else if (c + 1 == candidates.size())
      ADD_FAILURE() << "seed " << seed << ": the last candidate is not legal: " << why << "\n" << graph::print(graph);
  }
  if (legal.empty()) return 0;
  std::vector<size_t> chosen{legal.front(), legal.back(), one_of(random, legal)};
  RunSettings settings;
  settings.seed = seed;
  for (const size_t c : chosen) {
    settings.checker = modes;
    expect_runs_like_interpreter(graph, plan_with(graph, candidates[c], scramble), settings);
  }
  if (modes) {
    settings.checker = false;
    settings.random_order = seed + 1;
    expect_runs_like_interpreter(graph, plan_with(graph, candidates[legal.front()], scramble), settings);
  }
  return static_cast<int>(legal.size());
}

int64_t random_size(Random& random, int64_t limit) {
  const int64_t size = one_of<int64_t>(random, {1, 2, 3, 4, 7, 16, 31, 32, 33, 48, 64, 65, 96, 100, 128, 130, 200});
  return std::min(size, limit);
}

Product random_product(Random& random) {
  Product p;
  const std::vector<std::pair<HostType, HostType>> types{
      {HostType::f16, HostType::f16},   {HostType::f16, HostType::f16}, {HostType::f16, HostType::f32},
      {HostType::bf16, HostType::bf16}, {HostType::f32, HostType::f32}, {HostType::i32, HostType::i32},
      {HostType::i64, HostType::i64}};
  std::tie(p.type, p.result) = one_of(random, types);
  int64_t room = 400'000;
  const auto add = [&](Role role, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t size = random_size(random, std::max<int64_t>(1, room));
      room /= size;
      p.dims.push_back({role, size});
    }
  };
  add(Role::k, pick(random, 1, 2));
  add(Role::m, pick(random, 0, 2));
  add(Role::n, pick(random, 0, 2));
  add(Role::batch, pick(random, 0, 3) == 0 ? pick(random, 1, 2) : 0);
  std::shuffle(p.dims.begin(), p.dims.end(), random);
  return p;
}

TEST(Matmul, RandomProductsAreTheInterpreters) {
  const auto cases = static_cast<uint64_t>(base::fuzz_cases(50, "SPYRE_FUZZ_FORMS"));
  const uint64_t start = base::fuzz_seed(1);
  for (uint64_t seed = start; seed < start + cases && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    const Product p = random_product(random);
    GraphMaker maker;
    const Ref a = maker.random_input(random, p.type, sizes_of(p, true));
    const Ref b = maker.random_input(random, p.type, sizes_of(p, false));
    const std::vector<int64_t> sizes = result_sizes(p);
    const auto strides = [&] { return dense_strides(random, sizes, pick(random, 0, 3) == 0); };
    const Ref x = add_product(maker, p, a, b, strides());
    if (pick(random, 0, 1) == 0) maker.output(x);
    if (pick(random, 0, 1) == 0) {
      const HostType type = p.result;
      const Ref bias = maker.random_input(random, type, sizes), other = maker.random_input(random, type, sizes);
      maker.output(add_epilogue(maker, x, bias, other, type, strides()));
    }
    if (maker.graph.outputs.empty()) maker.output(x);
    // Products beside it, of the same a: alone, with Maps of their own, or multiplied by the first one's result.
    for (int64_t more = pick(random, 0, 2) == 0 ? pick(random, 1, 2) : 0; more > 0; --more) {
      const Ref y = add_product(maker, p, a, maker.random_input(random, p.type, sizes_of(p, false)), strides());
      const Ref bias = maker.random_input(random, p.result, sizes);
      const int64_t way = pick(random, 0, 2);
      maker.output(way == 0   ? y
                   : way == 1 ? add_epilogue(maker, y, bias, bias, p.result, strides())
                              : add_epilogue(maker, y, bias, x, p.result, strides()));
    }
    int64_t elements = 0;  // scrambled places take several times the memory
    for (const graph::Value& v : maker.graph.values) elements += for_test::storage_elements(v);
    const bool scramble = elements < 200'000 && pick(random, 0, 2) == 0;
    EXPECT_GT(run_matmul(maker.graph, random, seed, scramble ? seed : 0, seed % 8 == 0), 0);
  }
}

/// Shapes of models: rows x depth x lanes, with weights stored [n, k].
TEST(Matmul, LinearLayersUseManyCores) {
  struct Shape {
    int64_t m, k, n;
  };
  uint64_t seed = 1;
  for (const Shape s : {Shape{1, 576, 576}, Shape{1, 384, 1536}, Shape{256, 384, 384}, Shape{7, 1000, 64}}) {
    for (const bool stored_nk : {false, true}) {
      GraphMaker maker;
      Product p;
      p.dims = {{Role::m, s.m}, {Role::n, s.n}, {Role::k, s.k}};
      p.result = HostType::f32;
      const Ref a = maker.input(HostType::f16, {s.m, s.k}, {s.k, 1});
      Ref b = maker.input(HostType::f16, {s.k, s.n}, {s.n, 1});
      if (stored_nk) {
        b = maker.input(HostType::f16, {s.n, s.k}, {s.k, 1});
      } else {
        std::swap(b.sizes[0], b.sizes[1]);
        std::swap(b.strides[0], b.strides[1]);
      }
      const Ref x = add_product(maker, p, a, b, {s.n, 1});
      Ref bias = maker.input(HostType::f16, {s.n}, {1});
      bias.sizes.insert(bias.sizes.begin(), s.m);
      bias.strides.insert(bias.strides.begin(), 0);
      const Ref rest = maker.input(HostType::f16, {s.m, s.n}, {s.n, 1});
      maker.output(add_epilogue(maker, x, bias, rest, HostType::f16, {s.n, 1}));
      Random random(seed);
      EXPECT_GT(run_matmul(maker.graph, random, seed, 0, false), 2);
      const plan::KernelPlan nodes = all_nodes(maker.graph, plan::Form::matmul);
      const plan::Plan plan = plan_with(maker.graph, nodes, 0);
      const plan::Context context{maker.graph, plan, description()};
      const auto candidates = plan::matmul_candidates(context, nodes.nodes);
      int64_t best = -1, one = -1;
      std::string why;
      for (const plan::KernelPlan& k : candidates) {
        const int64_t ps = price(maker.graph, k, plan, description(), &why);
        one = ps;
        if (ps >= 0 && (best < 0 || ps < best)) best = ps;
      }
      if (s.m * s.n * s.k > 300'000) {
        EXPECT_LT(best * 3, one) << s.m << " " << s.k << " " << s.n << ": " << best << " of " << one;
      }
      ++seed;
    }
  }
}

/// 3 x 3, stride 2, of [2, channels, 9, 20] to 24 channels, in the layout of images or with channels last.
graph::Graph convolution(int64_t channels, bool channels_last) {
  const int64_t n = 2, h = 9, w = 20, f = 24, kernel = 3, oh = 4, ow = 9;
  GraphMaker maker;
  const std::vector<int64_t> strides = channels_last ? std::vector<int64_t>{h * w * channels, 1, w * channels, channels}
                                                     : std::vector<int64_t>{channels * h * w, h * w, w, 1};
  const Ref x = maker.input(HostType::f16, {n, channels, h, w}, strides);
  const Ref weight = maker.input(HostType::f16, {f, channels, kernel, kernel},
                                 {channels * kernel * kernel, kernel * kernel, kernel, 1});
  Contract c;
  c.space = as_sizes({n, f, oh, ow, channels, kernel, kernel});
  c.roles = {Role::m, Role::n, Role::m, Role::m, Role::k, Role::k, Role::k};
  c.a.ref = {x.value, c.space,
             as_sizes({strides[0], 0, 2 * strides[2], 2 * strides[3], strides[1], strides[2], strides[3]}), 0};
  c.b.ref = {weight.value, c.space, as_sizes({0, channels * 9, 0, 0, 9, 3, 1}), 0};
  std::vector<int64_t> out;
  if (channels_last) out = {f * oh * ow, 1, ow * f, f};
  maker.output(maker.add(std::move(c), {HostType::f16}, out)[0]);
  return maker.graph;
}

TEST(Matmul, ConvolutionsReadOverlappingWindows) {
  for (const int64_t channels : {3, 16, 70}) {
    for (const bool channels_last : {false, true}) {
      Random random(static_cast<uint64_t>(channels));
      EXPECT_GT(run_matmul(convolution(channels, channels_last), random, static_cast<uint64_t>(channels), 0, false), 1);
    }
  }
}

/// Runs the copying program, then the plan's program on the copy. Returns the first difference from the interpreter.
std::string run_on_copy(const graph::Graph& graph, const plan::Plan& plan, uint64_t seed) {
  runtime::Device& device = for_test::test_device();
  runtime::Stream& stream = device.default_stream();
  const auto contents = [&](const runtime::AllocationPtr& m) {
    return runtime::contents_of(device, m->state(), m->logical_bytes());
  };
  const auto allocate = [&](HostType type, const layout::Geometry& geometry) {
    auto placement = std::make_shared<runtime::Placement>();
    placement->type = type;
    placement->geometry = geometry;
    auto memory =
        device.allocator().allocate_exact(geometry.storage_elements * base::host_bytes(type), stream, placement);
    device.synchronize();
    const runtime::Contents c = contents(memory);
    std::memset(c.bytes, 0xff, static_cast<size_t>(c.device_bytes()));
    return memory;
  };
  Random random(seed);
  std::vector<runtime::AllocationPtr> memory(graph.values.size());
  std::vector<graph::Tensor> inputs;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    memory[v] = allocate(value.type, plan.homes[v].geometry);
    if (value.node != graph::none) continue;
    graph::Tensor tensor;
    const auto n = static_cast<size_t>(for_test::storage_elements(value));
    std::vector<std::byte> elements(2 * n);
    for (size_t e = 0; e < n; ++e) {
      for_test::encode(base::Format::dl16, default_fill(graph, static_cast<graph::Id>(v), random), &elements[2 * e]);
      tensor.value.push_back(for_test::decode(base::Format::dl16, &elements[2 * e]));
    }
    runtime::scatter(elements.data(),
                     runtime::device_side(contents(memory[v]), value.type, {{static_cast<int64_t>(n)}, {1}, 0}));
    inputs.push_back(std::move(tensor));
  }
  const auto launch = [&](const program::Program& program, const std::vector<runtime::Binding>& bindings) {
    const auto executable = std::make_shared<const card::Executable>(program, device.description());
    runtime::LoadedProgram::load(device, executable)->launch(stream, bindings, {});
    device.synchronize();
  };
  std::vector<runtime::AllocationPtr> copies;
  for (const plan::Repack& repack : plan.repacks) {
    const auto from =
        static_cast<size_t>(std::get<Contract>(graph.nodes[static_cast<size_t>(repack.node)].kind).b.ref.value);
    copies.push_back(allocate(graph.values[from].type, repack.geometry));
    launch(lower_repack(graph, repack, plan, device.description()),
           {{0, memory[from].get()}, {1, copies.back().get()}});
  }
  const Lowered lowered = lower(graph, plan, device.description());
  std::vector<runtime::Binding> bindings;
  for (size_t s = 0; s < lowered.symbols.size(); ++s) {
    const Lowered::Source& source = lowered.symbols[s];
    const bool is_copy = source.value == graph::none;
    bindings.push_back({static_cast<program::Id>(s), is_copy ? copies.at(static_cast<size_t>(source.repack)).get()
                                                             : memory[static_cast<size_t>(source.value)].get()});
  }
  launch(lowered.program, bindings);
  for (const graph::Ref& output : graph.outputs) {
    const graph::Id result = output.value;
    const graph::Value& value = graph.values[static_cast<size_t>(result)];
    const auto n = static_cast<size_t>(for_test::storage_elements(value));
    std::vector<std::byte> got(2 * n);
    runtime::gather(runtime::device_side(contents(memory[static_cast<size_t>(result)]), value.type,
                                         {{static_cast<int64_t>(n)}, {1}, 0}),
                    got.data());
    const graph::Tensor want = graph::interpret(graph, inputs, {})[static_cast<size_t>(result)];
    for (size_t e = 0; e < n; ++e) {
      const double have = for_test::decode(base::Format::dl16, &got[2 * e]);
      if (!(std::abs(have - want.value[e]) <= graph::tolerance(want, e, base::Format::dl16)))
        return fmt::format("{} element {}: {} instead of {}", value.name, e, have, want.value[e]);
    }
  }
  return {};
}

void expect_runs_on_copy(const graph::Graph& graph, uint64_t scramble) {
  const plan::KernelPlan nodes = all_nodes(graph, plan::Form::matmul);
  plan::Plan plan = plan_with(graph, nodes, scramble);
  for (const graph::Id node : nodes.nodes) {
    if (!std::holds_alternative<Contract>(graph.nodes[static_cast<size_t>(node)].kind)) continue;
    const auto repack = plan::repack_of({graph, plan, description()}, node, std::vector<bool>(graph.values.size()));
    ASSERT_TRUE(repack.has_value()) << graph::print(graph);
    plan.repacks.push_back(*repack);
  }
  int64_t best = -1;
  for (const plan::KernelPlan& c : plan::matmul_candidates({graph, plan, description()}, nodes.nodes)) {
    const int64_t ps = price(graph, c, plan, description());
    if (ps < 0 || (best >= 0 && ps >= best)) continue;
    best = ps;
    plan.kernels = {c};
  }
  ASSERT_GT(best, 0);
  EXPECT_EQ(run_on_copy(graph, plan, 5), "") << graph::print(graph);
}

/// An operand lies in a copy of another order, which its own program makes.
TEST(Matmul, RepackedWeightsAreReadAsMultiplied) {
  for (const uint64_t scramble : {0, 9}) {
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{64, 200, 160}, {1, 64, 1000}, {3, 1000, 70}}) {
      GraphMaker maker;
      Product p;
      p.dims = {{Role::m, m}, {Role::n, n}, {Role::k, k}};
      const Ref a = maker.input(HostType::f16, {m, k}, {k, 1}), b = maker.input(HostType::f16, {n, k}, {k, 1});
      maker.output(add_product(maker, p, a, b, {n, 1}));
      expect_runs_on_copy(maker.graph, scramble);
    }
    expect_runs_on_copy(convolution(70, false), scramble);
    expect_runs_on_copy(convolution(70, true), scramble);
  }
}

/// q, k and v: one kernel that loads x once and reads three copies of weights. Gate and up: their product, too.
TEST(Matmul, ProductsOfOneOperandReadTheirOwnWeights) {
  for (const bool gated : {false, true}) {
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{64, 200, 160}, {3, 130, 600}}) {
      GraphMaker maker;
      Product p;
      p.dims = {{Role::m, m}, {Role::n, n}, {Role::k, k}};
      const Ref x = maker.input(HostType::f16, {m, k}, {k, 1});
      const auto weights = [&] { return maker.input(HostType::f16, {n, k}, {k, 1}); };
      const auto bias = [&] { return maker.input(HostType::f16, {m, n}, {0, 1}); };
      const Ref first = add_product(maker, p, x, weights(), {n, 1});
      if (!gated) maker.output(add_epilogue(maker, first, bias(), bias(), HostType::f16, {n, 1}));
      const Ref second = add_product(maker, p, x, weights(), {n, 1});
      maker.output(add_epilogue(maker, second, bias(), gated ? first : bias(), HostType::f16, {n, 1}));
      if (!gated) maker.output(add_product(maker, p, x, weights(), {n, 1}));
      expect_runs_on_copy(maker.graph, m == 3 ? 9 : 0);
    }
  }
}

/// The second product has its columns in another order than the first one, and than the axes that they share.
TEST(Matmul, CopiesOfWeightsKeepTheOrderOfTheirOwnProduct) {
  for (const bool permuted_first : {false, true}) {
    const int64_t m = 32, k = 160, heads = 6, width = 64;
    GraphMaker maker;
    Product p;
    p.dims = {{Role::m, m}, {Role::n, heads}, {Role::n, width}, {Role::k, k}};
    Product q = p;
    std::swap(q.dims[1], q.dims[2]);
    const Ref x = maker.input(HostType::f16, {m, k}, {k, 1});
    const auto weights = [&](int64_t outer, int64_t inner) {
      return maker.input(HostType::f16, {outer, inner, k}, {inner * k, k, 1});
    };
    const auto plain_product = [&] {
      return add_product(maker, p, x, weights(heads, width), {heads * width, width, 1});
    };
    const auto permuted_product = [&] {
      Ref y = add_product(maker, q, x, weights(width, heads), {heads * width, heads, 1});
      std::swap(y.sizes[1], y.sizes[2]);
      std::swap(y.strides[1], y.strides[2]);
      return y;
    };
    const Ref a = permuted_first ? permuted_product() : plain_product();
    const Ref b = permuted_first ? plain_product() : permuted_product();
    const Ref bias = maker.input(HostType::f16, {m, heads, width}, {0, width, 1});
    maker.output(add_epilogue(maker, a, bias, b, HostType::f16, {heads * width, width, 1}));
    expect_runs_on_copy(maker.graph, 0);
  }
}

/// Of two products that read different operands, or one in different ways, no kernel is made.
TEST(Matmul, OnlyProductsOfOneOperandShareAKernel) {
  const auto accepts = [](bool same_value, bool same_strides, int64_t n) {
    GraphMaker maker;
    const auto product = [&](int64_t lanes, const Ref& a) {
      Product p;
      p.dims = {{Role::m, 64}, {Role::n, lanes}, {Role::k, 64}};
      maker.output(add_product(maker, p, a, maker.input(HostType::f16, {lanes, 64}, {64, 1}), {lanes, 1}));
    };
    const Ref x = maker.input(HostType::f16, {64, 64}, {64, 1});
    Ref y = same_value ? x : maker.input(HostType::f16, {64, 64}, {64, 1});
    if (!same_strides) std::swap(y.strides[0], y.strides[1]);
    product(96, x);
    product(n, y);
    const plan::KernelPlan nodes = all_nodes(maker.graph, plan::Form::matmul);
    const plan::Plan plan = plan_with(maker.graph, nodes, 0);
    return plan::matmul_accepts({maker.graph, plan, description()}, nodes.nodes);
  };
  EXPECT_TRUE(accepts(true, true, 96));
  EXPECT_FALSE(accepts(false, true, 96));
  EXPECT_FALSE(accepts(true, false, 96));
  EXPECT_FALSE(accepts(true, true, 128));
}

/// Clipped tiles are multiplied as far as they reach, and no further.
TEST(Matmul, WhatNobodyReadsIsNotMultiplied) {
  constexpr int64_t m = 205, n = 128, k = 320;
  GraphMaker maker;
  Product p;
  p.dims = {{Role::m, m}, {Role::n, n}, {Role::k, k}};
  const Ref a = maker.input(HostType::f16, {m, k}, {k, 1});
  Ref b = maker.input(HostType::f16, {k, n}, {n, 1});
  std::swap(b.sizes[0], b.sizes[1]);
  std::swap(b.strides[0], b.strides[1]);
  maker.output(add_product(maker, p, a, b, {n, 1}));
  const plan::KernelPlan nodes = all_nodes(maker.graph, plan::Form::matmul);
  const plan::Plan plan = plan_with(maker.graph, nodes, 0);
  int clipped = 0;
  for (const plan::KernelPlan& c : plan::matmul_candidates({maker.graph, plan, description()}, nodes.nodes)) {
    if (price(maker.graph, c, plan, description()) < 0) continue;
    const timing::Timeline time =
        timing::walk(lower_kernel(maker.graph, c, plan, description()).program, {}, description());
    EXPECT_EQ(time.calls.at(0).macs, m * n * k) << "tiles of " << c.tile[0] << " rows";
    clipped += m % c.tile[0] != 0;
  }
  EXPECT_GT(clipped, 3);
}

TEST(Matmul, EveryCoreHasTerms) {
  GraphMaker maker;
  Product p;
  p.dims = {{Role::m, 4}, {Role::n, 64}, {Role::k, 128}};
  const Ref a = maker.input(HostType::f16, {4, 128}, {128, 1});
  Ref b = maker.input(HostType::f16, {128, 64}, {64, 1});
  std::swap(b.sizes[0], b.sizes[1]);
  std::swap(b.strides[0], b.strides[1]);
  maker.output(add_product(maker, p, a, b, {64, 1}));
  const plan::KernelPlan nodes = all_nodes(maker.graph, plan::Form::matmul);
  const plan::Plan plan = plan_with(maker.graph, nodes, 0);
  plan::KernelPlan kernel = plan::matmul_candidates({maker.graph, plan, description()}, nodes.nodes).at(0);
  std::fill(kernel.grid.begin(), kernel.grid.end(), 1);
  kernel.grid.back() = 2;
  kernel.tile = {4, 64, 64};
  std::string why;
  EXPECT_GE(price(maker.graph, kernel, plan, description(), &why), 0) << why;
  kernel.grid.back() = 7;  // parts are whole sticks
  EXPECT_LT(price(maker.graph, kernel, plan, description(), &why), 0);
  EXPECT_NE(why.find("128 terms cannot be divided between 7 cores"), std::string::npos) << why;
}

TEST(Matmul, NoTermsAreZero) {
  GraphMaker maker;
  Product p;
  p.dims = {{Role::m, 5}, {Role::n, 70}, {Role::k, 0}};
  const Ref a = maker.input(HostType::f16, {5, 0}, {1, 1}), b = maker.input(HostType::f16, {0, 70}, {70, 1});
  Ref bt = b;
  std::swap(bt.sizes[0], bt.sizes[1]);
  std::swap(bt.strides[0], bt.strides[1]);
  maker.output(add_product(maker, p, a, bt, {70, 1}));
  Random random(1);
  EXPECT_GT(run_matmul(maker.graph, random, 1, 0, false), 0);
}

}  // namespace
}  // namespace spyre::lower
