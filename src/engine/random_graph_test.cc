// Random graphs: chains of operations over random shapes, strides, views and types, planned at random too, on plain and
// scrambled layouts, against the interpreter. SPYRE_FUZZ_GRAPHS and SPYRE_FUZZ_SEED steer it.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/fuzz_for_test.h"
#include "engine/launch_for_test.h"
#include "lower/graph_for_test.h"

namespace spyre::engine {
namespace {

using base::HostType;
using graph::Expr;
using graph::Ref;
using graph::Reg;
using lower::one_of;
using lower::pick;
using lower::Random;
using program::Monoid;
using program::VecOp;

std::vector<int64_t> sizes_of(const Ref& ref) { return lower::for_test::numbers(ref.sizes); }

int64_t count(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  graph::Graph make() {
    std::vector<int64_t> sizes;
    const int64_t rank = pick(random_, 0, 4);
    for (int64_t d = 0; d < rank; ++d) {
      int64_t n = one_of(random_, std::vector<int64_t>{1, 2, 3, 4, 5, 8, 17, 64, 65, 130});
      if (count(sizes) * n > 6000) n = 2;
      sizes.push_back(n);
    }
    m_.graph.params = {{"p", true}};
    const HostType type = one_of(random_, std::vector<HostType>{HostType::f16, HostType::f16, HostType::f32,
                                                                HostType::bf16, HostType::i64, HostType::i32});
    pool_.push_back(m_.random_input(random_, type, sizes));
    const int64_t steps = pick(random_, 1, 7);
    for (int64_t s = 0; s < steps; ++s) step();
    finish();
    return std::move(m_.graph);
  }

 private:
  HostType type_of(const Ref& ref) const { return m_.graph.values[static_cast<size_t>(ref.value)].type; }
  Ref any() {
    return pool_[static_cast<size_t>(pick(random_, std::max<int64_t>(0, static_cast<int64_t>(pool_.size()) - 3),
                                          static_cast<int64_t>(pool_.size()) - 1))];
  }

  void step() {
    const Ref x = any();
    switch (pick(random_, 0, 9)) {
      case 0:
      case 1:
        return unary(x);
      case 2:
      case 3:
        return binary(x);
      case 4:
        return permute(x);
      case 5:
        return slice(x);
      case 6:
        return reduce(x);
      case 7:
        return cast(x);
      case 8:
        return matmul(x);
      case 9:
        return place(x);
    }
  }

  graph::Map map_of(const std::vector<Ref>& refs, Expr value) {
    graph::Map map;
    map.space = refs[0].sizes;
    for (const Ref& r : refs) map.loads.push_back({r, {}, 0});
    map.value.push_back(std::move(value));
    return map;
  }
  Expr load(const Ref& ref, graph::Id id) { return Expr::load(id, graph::register_of(type_of(ref))); }
  void add(graph::Kind kind, HostType type) {
    const std::vector<int64_t> sizes = lower::for_test::numbers(graph::result_sizes(kind, 0));
    pool_.push_back(m_.add(std::move(kind), {type}, lower::dense_strides(random_, sizes, pick(random_, 0, 3) == 0))[0]);
  }

  void unary(const Ref& x) {
    Expr l = load(x, 0);
    if (l.type == Reg::i32) {
      add(map_of({x}, Expr::make(VecOp::min, {Expr::make(VecOp::neg, {l}), Expr::i32(20)})), type_of(x));
      return;
    }
    switch (pick(random_, 0, 4)) {
      case 0:
        l = Expr::make(VecOp::mul, {l, Expr::of_param(0, true)});
        break;
      case 1:
        l = Expr::make(VecOp::exp, {Expr::make(VecOp::min, {l, Expr::f32(2)})});
        break;
      case 2:
        l = Expr::make(VecOp::tanh, {l});
        break;
      case 3:
        l = Expr::make(VecOp::abs, {Expr::make(VecOp::sub, {l, Expr::f32(0.5)})});
        break;
      case 4:
        l = Expr::make(VecOp::select, {Expr::make(VecOp::gt, {l, Expr::f32(0)}), l, Expr::f32(-1)});
        break;
    }
    add(map_of({x}, std::move(l)), type_of(x));
  }

  void binary(const Ref& x) {
    Ref y;
    for (const Ref& r : pool_)
      if (r.sizes == x.sizes && graph::register_of(type_of(r)) == graph::register_of(type_of(x)) &&
          pick(random_, 0, 1) == 0)
        y = r;
    if (y.value == graph::none) {
      y = m_.random_input(random_, type_of(x), sizes_of(x));
      pool_.push_back(y);
    }
    const VecOp op = one_of(random_, std::vector<VecOp>{VecOp::add, VecOp::sub, VecOp::max, VecOp::min});
    const bool trap = type_of(x) == HostType::i64 && (op == VecOp::add || op == VecOp::sub);
    add(map_of({x, y}, Expr::make(op, {load(x, 0), load(y, 1)}, trap)), type_of(x));
  }

  void permute(Ref x) {
    if (x.sizes.size() < 2) return unary(x);
    const auto d = static_cast<size_t>(pick(random_, 1, static_cast<int64_t>(x.sizes.size()) - 1));
    std::swap(x.sizes[d], x.sizes[d - 1]);
    std::swap(x.strides[d], x.strides[d - 1]);
    pool_.push_back(x);
  }

  void slice(Ref x) {
    if (x.sizes.empty()) return unary(x);
    const auto d = static_cast<size_t>(pick(random_, 0, static_cast<int64_t>(x.sizes.size()) - 1));
    const int64_t n = *x.sizes[d].constant(), stride = *x.strides[d].constant();
    const int64_t first = pick(random_, 0, n - 1), step = pick(random_, 1, 3);
    const int64_t left = (n - first + step - 1) / step;
    if (pick(random_, 0, 3) == 0) {  // backwards
      x.offset = x.offset + graph::Size((first + step * (left - 1)) * stride);
      x.strides[d] = -stride * step;
    } else {
      x.offset = x.offset + graph::Size(first * stride);
      x.strides[d] = stride * step;
    }
    x.sizes[d] = left;
    pool_.push_back(x);
  }

  void reduce(const Ref& x) {
    graph::Reduce r;
    r.space = x.sizes;
    for (size_t d = 0; d < x.sizes.size(); ++d)
      if (pick(random_, 0, 1) == 0) r.dims.push_back(static_cast<int32_t>(d));
    if (r.dims.empty()) return unary(x);
    r.loads.push_back({x, {}, 0});
    r.value = load(x, 0);
    r.monoid = one_of(random_, std::vector<Monoid>{Monoid::sum, Monoid::max, Monoid::min});
    r.trap = r.monoid == Monoid::sum && type_of(x) == HostType::i64;
    const std::vector<int32_t> dims = r.dims;
    add(std::move(r), type_of(x));
    // Back to the shape of x, as a norm reads it.
    Ref back = pool_.back();
    for (int32_t d : dims) {
      back.sizes.insert(back.sizes.begin() + d, x.sizes[static_cast<size_t>(d)]);
      back.strides.insert(back.strides.begin() + d, graph::Size(0));
    }
    pool_.push_back(back);
    if (pick(random_, 0, 1) == 0) {
      pool_.push_back(x);
      binary(back);
    }
  }

  void cast(const Ref& x) {
    const HostType to = one_of(random_, std::vector<HostType>{HostType::f16, HostType::f32, HostType::bf16});
    add(map_of({x}, Expr::cast(load(x, 0), Reg::f32)), to);
  }

  /// Read backwards, which only Maps and Reduces can.
  static bool flipped(const Ref& x) {
    return std::any_of(x.strides.begin(), x.strides.end(), [](const graph::Size& s) { return *s.constant() < 0; });
  }

  void matmul(const Ref& x) {
    if (flipped(x)) return unary(x);
    if (x.sizes.size() < 2 || graph::register_of(type_of(x)) != Reg::f32) return binary(x);
    const size_t rank = x.sizes.size();
    const int64_t n = one_of(random_, std::vector<int64_t>{1, 3, 32, 64, 70}), k = *x.sizes.back().constant();
    const Ref w = m_.random_input(random_, type_of(x), {n, k});
    graph::Contract c;
    c.space = x.sizes;
    c.space.insert(c.space.end() - 1, graph::Size(n));
    for (size_t d = 0; d + 1 < rank; ++d) c.roles.push_back(graph::Contract::Role::m);
    c.roles.push_back(graph::Contract::Role::n);
    c.roles.push_back(graph::Contract::Role::k);
    c.a.ref = x;
    c.a.ref.sizes = c.space;
    c.a.ref.strides.insert(c.a.ref.strides.end() - 1, graph::Size(0));
    c.b.ref = w;
    c.b.ref.sizes = c.space;
    c.b.ref.strides.assign(rank - 1, graph::Size(0));
    c.b.ref.strides.insert(c.b.ref.strides.end(), w.strides.begin(), w.strides.end());
    add(std::move(c), type_of(x));
  }

  void place(const Ref& x) {
    if (x.sizes.empty() || flipped(x)) return unary(x);
    const auto d = static_cast<size_t>(pick(random_, 0, static_cast<int64_t>(x.sizes.size()) - 1));
    graph::Place p;
    p.fill = 2;
    p.sizes = x.sizes;
    const int64_t n = *x.sizes[d].constant(), gap = pick(random_, 0, 3);
    p.sizes[d] = 2 * n + gap;
    for (int64_t start : {int64_t{0}, n + gap}) {
      graph::Place::Piece piece;
      piece.from = x;
      piece.start.assign(x.sizes.size(), graph::Size(0));
      piece.step.assign(x.sizes.size(), graph::Size(1));
      piece.start[d] = start;
      p.pieces.push_back(std::move(piece));
    }
    add(std::move(p), type_of(x));
  }

  void finish() {
    if (m_.graph.nodes.empty()) unary(pool_.back());
    graph::Graph& g = m_.graph;
    g.outputs.push_back(graph::whole(g, g.nodes.back().results[0]));
    for (size_t n = 0; n + 1 < g.nodes.size(); ++n)
      if (pick(random_, 0, 4) == 0) g.outputs.push_back(graph::whole(g, g.nodes[n].results[0]));
    // New contents for an input of the same sizes and type.
    for (const graph::Id input : g.inputs) {
      const graph::Value& v = g.values[static_cast<size_t>(input)];
      const Ref from = pool_.back();
      if (pick(random_, 0, 1) == 0 && from.sizes == v.sizes && type_of(from) == v.type) {
        g.mutations.push_back({input, from});
        break;
      }
    }
  }

  Random random_;
  lower::GraphMaker m_;
  std::vector<Ref> pool_;
};

void fuzz(runtime::Device& device, int64_t rounds, bool random_plans) {
  const auto first = static_cast<int64_t>(base::fuzz_seed(1));
  rounds = base::fuzz_cases(rounds, "SPYRE_FUZZ_GRAPHS");
  for (int64_t seed = first; seed < first + rounds; ++seed) {
    const OptionsForTest options([&](Options& o) { o.plan_seed = random_plans ? static_cast<uint64_t>(seed) : 0; });
    graph::Graph g = Maker(static_cast<uint64_t>(seed)).make();
    Executor executor(std::move(g));
    LaunchSettings settings;
    settings.seed = static_cast<uint64_t>(seed);
    settings.params = {0.75};
    Random random(settings.seed);
    for (size_t i = 0; i < executor.graph().inputs.size(); ++i)
      settings.offsets.push_back(pick(random, 0, 2) == 0 ? pick(random, 1, 200) : 0);
    expect_right(executor, device, {}, settings);
    ASSERT_FALSE(testing::Test::HasFailure()) << "SPYRE_FUZZ_SEED=" << seed << " SPYRE_FUZZ_GRAPHS=1";
  }
}

TEST(RandomGraphs, RunAsTheInterpreterDoes) { fuzz(plain_device(), 40, false); }
TEST(RandomGraphs, RunTheSameByRandomPlans) { fuzz(plain_device(), 40, true); }
TEST(RandomGraphs, RunOnScrambledLayouts) { fuzz(scrambled_device(), 30, false); }

}  // namespace
}  // namespace spyre::engine
