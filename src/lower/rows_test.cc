// Rows and reduce kernels: fixed shapes, and random graphs over shapes, strides, types and candidates, all run on a
// card.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "graph/import.h"
#include "lower/run_for_test.h"
#include "plan/forms.h"
#include "plan/rows.h"

namespace spyre::lower {
namespace {

using base::HostType;
using graph::Builder;
using graph::Expr;
using graph::Graph;
using graph::Id;
using graph::Ref;
using graph::Size;
using program::Monoid;
using program::Reg;
using program::VecOp;

/// Index inputs are named "below<N>": their values are legal indices.
double fill(const Graph& graph, Id value, std::mt19937_64& random) {
  const std::string& name = graph.values[value].name;
  if (name.rfind("below", 0) == 0)
    return static_cast<double>(std::uniform_int_distribution<int64_t>(0, std::stoll(name.substr(5)) - 1)(random));
  if (name.rfind("around", 0) == 0)
    return static_cast<double>(std::uniform_int_distribution<int64_t>(-2, std::stoll(name.substr(6)) + 1)(random));
  return default_fill(graph, value, random);
}

/// Runs one kernel of these nodes (all when empty) under its candidates: `most` of them, and always the last, which
/// must be legal.
void run_candidates(const Graph& graph, std::vector<std::vector<Id>> kernels = {}, uint64_t seed = 1, size_t most = 2,
                    uint64_t scramble = 0) {
  if (kernels.empty()) {
    kernels.emplace_back();
    for (Id n = 0; n < static_cast<Id>(graph.nodes.size()); ++n) kernels[0].push_back(n);
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
  settings.fill = fill;
  settings.params.assign(graph.params.size(), 0.75);
  size_t done = 0;
  for (size_t r = 0; r < rounds; ++r) {
    const bool last = r + 1 == rounds;
    if (!last && done >= most) continue;
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
    settings.checker = r % 2 == 1;
    settings.random_order = r % 3 == 2 ? seed + 1 : 0;
    if (settings.random_order) settings.checker = false;
    expect_runs_like_interpreter(graph, plan, settings);
    if (::testing::Test::HasFailure()) return;
  }
}

void run_text(const std::string& text, std::vector<std::vector<Id>> kernels = {}) {
  run_candidates(graph::parse(text), std::move(kernels), 1, 100);
}

TEST(Rows, Pointwise) {
  run_text(R"(
input v0 "x" f16 [1000:1]
input v1 "y" f16 [1000:1]
v2 f16 [1000:1] = map [1000] loads(v0[1000:1], v1[1000:1]) value(add(mul(l0, l1), 1.0))
output v2[1000:1]
)");
}

TEST(Rows, Softmax) {
  run_text(R"(
input v0 "x" f16 [6:1500, 15:100, 100:1]
v1 f32 [6:15, 15:1] = reduce max [6, 15, 100] over(2) loads(v0[6:1500, 15:100, 100:1]) value(l0)
v2 f32 [6:1500, 15:100, 100:1] = map [6, 15, 100] loads(v0[6:1500, 15:100, 100:1], v1[6:15, 15:1, 100:0]) value(exp(sub(l0, l1)))
v3 f32 [6:15, 15:1] = reduce sum [6, 15, 100] over(2) loads(v2[6:1500, 15:100, 100:1]) value(l0)
v4 f16 [6:1500, 15:100, 100:1] = map [6, 15, 100] loads(v2[6:1500, 15:100, 100:1], v3[6:15, 15:1, 100:0]) value(div(l0, l1))
output v4[6:1500, 15:100, 100:1]
)");
}

TEST(Rows, LayerNormWithItsStatistics) {
  run_text(R"(
input v0 "x" f16 [24:384, 384:1]
input v1 "g" f16 [384:1]
input v2 "b" f16 [384:1]
v3 f32 [24:1], v4 f32 [24:1], v5 f32 [24:1] = reduce welford [24, 384] over(1) loads(v0[24:384, 384:1]) value(l0)
v6 f32 [24:1, 1:1] = map [24, 1] loads(v4[24:1, 1:1], v5[24:1, 1:1]) value(rsqrt(add(div(l0, l1), 1.0e-5)))
v7 f16 [24:384, 384:1] = map [24, 384] loads(v0[24:384, 384:1], v3[24:1, 384:0], v6[24:1, 384:0], v1[24:0, 384:1], v2[24:0, 384:1]) value(fma(mul(sub(l0, l1), l2), l3, l4))
output v7[24:384, 384:1]
output v6[24:1, 1:1]
output v3[24:1]
)");
}

TEST(Rows, Transposes) {
  run_text(R"(
input v0 "x" f16 [70:33, 33:1]
v1 f16 [33:70, 70:1] = map [33, 70] loads(v0[33:1, 70:33]) value(l0)
output v1[33:70, 70:1]
)");
}

TEST(Rows, FlipsBothWays) {
  run_text(R"(
input v0 "x" f32 [5:33, 33:1]
v1 f32 [5:33, 33:1] = map [5, 33] loads(v0[5:-33, 33:-1 @ 164]) value(l0)
output v1[5:33, 33:1]
)");
}

TEST(Rows, Embedding) {
  run_text(R"(
input v0 "below50" i64 [4:9, 9:1]
input v1 "table" f16 [50:96, 96:1]
v2 f16 [4:864, 9:96, 96:1] = map [4, 9, 96] loads(v0[4:9, 9:1, 96:0], v1[4:0, 9:0, 96:1] gather(l0, 50, 96, trap)) value(l1)
output v2[4:864, 9:96, 96:1]
)");
}

TEST(Rows, GatherAlongTheLastDimension) {
  run_text(R"(
input v0 "around70" i64 [12:40, 40:1]
input v1 "table" f16 [12:70, 70:1]
v2 f16 [12:40, 40:1] = map [12, 40] loads(v0[12:40, 40:1], v1[12:70, 40:0] gather(l0, 70, 1, fill) fill 2.5) value(l1)
output v2[12:40, 40:1]
)");
}

TEST(Rows, TwoIndices) {
  run_text(R"(
input v0 "below7" i64 [40:1]
input v1 "below9" i64 [40:1]
input v2 "table" f16 [7:90, 9:10, 10:1]
v3 f16 [40:10, 10:1] = map [40, 10] loads(v0[40:1, 10:0], v1[40:1, 10:0], v2[40:0, 10:1] gather(l0, 7, 90, trap) gather(l1, 9, 10, trap)) value(l2)
output v3[40:10, 10:1]
)");
}

TEST(Rows, AnIndexOutsideTraps) {
  const Graph graph = graph::parse(R"(
input v0 "ix" i64 [4:1]
input v1 "table" f16 [50:96, 96:1]
v2 f16 [4:96, 96:1] = map [4, 96] loads(v0[4:1, 96:0], v1[4:0, 96:1] gather(add(l0, 500), 50, 96, trap)) value(l1) at "aten.embedding" "m.py:1"
output v2[4:96, 96:1]
)");
  plan::KernelPlan kernel;
  kernel.nodes = {0};
  plan::Plan plan = plain_plan(as_prepared(graph), {kernel});
  const plan::Context context{graph, plan, for_test::test_device().description()};
  plan.kernels = {plan::rows_candidates(context, kernel.nodes)[0]};
  RunSettings settings;
  EXPECT_THROW(first_difference(graph, plan, settings), Error);
}

TEST(Rows, NarrowIntegersWrap) {
  run_text(R"(
input v0 "a" u8 [300:1]
input v1 "b" i8 [300:1]
v2 u8 [300:1] = map [300] loads(v0[300:1]) value(bit_and(add(l0, 200), 255))
v3 i8 [300:1] = map [300] loads(v1[300:1], v2[300:1]) value(sub(bit_and(add(add(l0, l1), 128), 255), 128))
v4 i32 [300:1] = map [300] loads(v3[300:1], v2[300:1]) value(add(l0, l1))
output v4[300:1]
output v3[300:1]
)");
}

// ------------------------------------------------------------------------------------------------------ random graphs

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  int64_t pick(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random_); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random_) < p; }

  std::vector<int64_t> sizes(int rank, int64_t most) {
    static constexpr int64_t some[] = {1, 2, 3, 5, 8, 16, 31, 33, 64, 65, 100, 130, 257};
    std::vector<int64_t> out;
    int64_t have = 1;
    for (int d = 0; d < rank; ++d) {
      int64_t s = some[pick(0, std::size(some) - 1)];
      while (have * s > most) s = (s + 1) / 2 == s ? 1 : (s + 1) / 2;
      out.push_back(s);
      have *= s;
    }
    std::shuffle(out.begin(), out.end(), random_);
    return out;
  }
  HostType type() {
    static constexpr HostType some[] = {HostType::f16, HostType::bf16, HostType::f32, HostType::i32, HostType::i64,
                                        HostType::u8,  HostType::i8,   HostType::b8,  HostType::f16};
    return some[pick(0, std::size(some) - 1)];
  }

  /// A reference of the space's sizes into a new input: permuted, stepped, flipped, broadcast.
  Ref read(const std::vector<int64_t>& space, HostType type, std::string name = "") {
    std::vector<size_t> order;
    std::vector<int64_t> step(space.size(), 0);
    for (size_t d = 0; d < space.size(); ++d)
      if (!chance(0.2)) order.push_back(d);
    if (chance(0.4)) std::shuffle(order.begin(), order.end(), random_);
    std::vector<Size> sizes, strides;
    std::vector<int64_t> stride(space.size(), 0), own;
    int64_t offset = 0, inner = 1;
    for (size_t i = order.size(); i-- > 0;) {
      const size_t d = order[i];
      const int64_t by = chance(0.15) ? 2 : 1, before = chance(0.2) ? pick(0, 3) : 0,
                    behind = chance(0.2) ? pick(0, 3) : 0;
      const int64_t size = before + by * (space[d] - 1) + 1 + behind;
      const bool flip = chance(0.1);
      stride[d] = flip ? -inner * by : inner * by;
      offset += inner * (before + (flip ? by * (space[d] - 1) : 0));
      own.insert(own.begin(), size);
      inner *= size;
    }
    for (int64_t s : own) sizes.emplace_back(s);
    const Ref whole =
        builder_.input(name.empty() ? fmt::format("in{}", inputs_) : name, type, sizes, graph::contiguous(sizes));
    ++inputs_;
    Ref r;
    r.value = whole.value;
    for (int64_t s : space) r.sizes.emplace_back(s);
    for (int64_t s : stride) r.strides.emplace_back(s);
    r.offset = offset;
    return r;
  }

  Expr to(Expr e, HostType type) {
    const Reg reg = graph::register_of(type);
    if (reg == Reg::i32 && e.type == Reg::f32) {
      // Into the type's range, so that no conversion is out of it.
      e = Expr::make(VecOp::min, {Expr::make(VecOp::max, {std::move(e), Expr::f32(type == HostType::u8 ? 0 : -100)}),
                                  Expr::f32(100)});
      return Expr::cast(std::move(e), Reg::i32, type == HostType::i64);
    }
    if (reg == Reg::i32 && e.type == Reg::pred) return Expr::cast(std::move(e), Reg::i32);
    if (reg == Reg::i32 && (type == HostType::u8 || type == HostType::i8)) {
      Expr low = Expr::make(VecOp::bit_and, {std::move(e), Expr::i32(127)});
      return low;
    }
    return Expr::cast(std::move(e), reg, false);
  }

  Expr combine(Expr a, Expr b) {
    if (a.type != b.type) {
      const Reg reg = a.type == Reg::f32 || b.type == Reg::f32 ? Reg::f32 : Reg::i32;
      a = Expr::cast(std::move(a), reg);
      b = Expr::cast(std::move(b), reg);
    }
    if (a.type == Reg::pred)
      return Expr::make(chance(0.5) ? VecOp::logical_and : VecOp::logical_or, {std::move(a), std::move(b)});
    switch (pick(0, 4)) {
      case 0:
        return Expr::make(VecOp::sub, {std::move(a), std::move(b)});
      case 1:
        return Expr::make(VecOp::max, {std::move(a), std::move(b)});
      case 2:
        return Expr::make(VecOp::select, {Expr::make(VecOp::lt, {a, b}), b, a});
      default:
        return Expr::make(VecOp::add, {std::move(a), std::move(b)});
    }
  }

  Expr leaf(std::vector<graph::Load>& loads, Ref ref, HostType type) {
    graph::Load l;
    l.ref = std::move(ref);
    loads.push_back(std::move(l));
    return Expr::load(static_cast<Id>(loads.size()) - 1, graph::register_of(type));
  }

  /// One more operand: a new input, an iota, a constant, a gathered one.
  Expr fresh(std::vector<graph::Load>& loads, const std::vector<int64_t>& space) {
    const HostType t = type();
    const int64_t what = pick(0, 9);
    if (what == 0 && !space.empty())
      return Expr::iota(static_cast<int32_t>(pick(0, static_cast<int64_t>(space.size()) - 1)));
    if (what == 1) return Expr::f32(1.5);
    if (what == 2) {
      const int64_t bound = pick(1, 9);
      Expr index = leaf(
          loads, read(space, HostType::i64, fmt::format("{}{}_{}", chance(0.5) ? "below" : "around", bound, inputs_)),
          HostType::i64);
      const bool around = builder_.graph().values[loads.back().ref.value].name[0] == 'a';
      Ref table = read(space, t);
      // The table has a further dimension in front: its input is made again, longer.
      const auto& old = builder_.graph().values[table.value];
      std::vector<Size> sizes = old.sizes;
      Size all = 1;
      for (const Size& s : sizes) all = all * s;
      sizes.insert(sizes.begin(), Size(bound));
      const Ref longer = builder_.input(fmt::format("in{}", inputs_), t, sizes, graph::contiguous(sizes));
      ++inputs_;
      table.value = longer.value;
      Expr e = leaf(loads, table, t);
      loads.back().gathers.push_back(
          {std::move(index), Size(bound), all, around ? program::OnOutside::fill : program::OnOutside::trap});
      if (around) loads.back().fill = 1;
      return e;
    }
    return leaf(loads, read(space, t), t);
  }

  std::vector<std::vector<Size>> result_strides(const std::vector<int64_t>& sizes) {
    std::vector<size_t> order(sizes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (chance(0.3)) std::shuffle(order.begin(), order.end(), random_);
    std::vector<Size> strides(sizes.size());
    int64_t inner = 1;
    for (size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = inner;
      inner *= sizes[order[i]];
    }
    return {strides};
  }

  Ref map(const std::vector<int64_t>& space, std::vector<Ref> inside, bool only_inside = false) {
    graph::Map m;
    for (int64_t s : space) m.space.emplace_back(s);
    std::optional<Expr> e;
    for (const Ref& r : inside) {
      Expr l = leaf(m.loads, r, builder_.type(r));
      e = e ? combine(std::move(*e), std::move(l)) : std::move(l);
    }
    const int64_t more = only_inside ? 0 : pick(inside.empty() ? 1 : 0, 2);
    for (int64_t i = 0; i < more; ++i) {
      Expr l = fresh(m.loads, space);
      e = e ? combine(std::move(*e), std::move(l)) : std::move(l);
    }
    const HostType t = type();
    m.value = {to(std::move(*e), t)};
    return builder_.add(std::move(m), {t}, {"op", "m.py:1"}, result_strides(space))[0];
  }

  std::vector<Ref> reduce(const std::vector<int64_t>& space, std::vector<int32_t> dims, std::optional<Ref> inside) {
    graph::Reduce r;
    for (int64_t s : space) r.space.emplace_back(s);
    r.dims = std::move(dims);
    Expr e = inside ? leaf(r.loads, *inside, builder_.type(*inside)) : fresh(r.loads, space);
    if (!inside && chance(0.3)) e = combine(std::move(e), fresh(r.loads, space));
    std::vector<int64_t> kept;
    for (size_t d = 0; d < space.size(); ++d)
      if (std::find(r.dims.begin(), r.dims.end(), static_cast<int32_t>(d)) == r.dims.end()) kept.push_back(space[d]);
    r.monoid = static_cast<Monoid>(pick(0, 9));
    std::vector<HostType> types;
    switch (r.monoid) {
      case Monoid::sum:
      case Monoid::max:
      case Monoid::min:
        if (e.type == Reg::pred) e = Expr::cast(std::move(e), Reg::i32);
        r.trap = r.monoid == Monoid::sum && e.type == Reg::i32;
        types = {e.type == Reg::i32 ? HostType::i64 : chance(0.5) ? HostType::f16 : HostType::f32};
        break;
      case Monoid::prod:
        e = Expr::make(VecOp::fma, {Expr::cast(std::move(e), Reg::f32), Expr::f32(0.001), Expr::f32(1)});
        types = {HostType::f32};
        break;
      case Monoid::any:
      case Monoid::all:
        e = Expr::cast(std::move(e), Reg::pred);
        types = {HostType::b8};
        break;
      case Monoid::argmax:
      case Monoid::argmin:
        if (e.type == Reg::pred) e = Expr::cast(std::move(e), Reg::i32);
        types = {e.type == Reg::i32 ? HostType::i32 : HostType::f32, HostType::i64};
        break;
      case Monoid::welford:
        e = Expr::cast(std::move(e), Reg::f32);
        types = {HostType::f32, HostType::f32, HostType::f32};
        break;
      case Monoid::logsumexp:
        e = Expr::cast(std::move(e), Reg::f32);
        types = {HostType::f32, HostType::f32};
        break;
    }
    r.value = std::move(e);
    return builder_.add(std::move(r), types, {"red", "m.py:2"});
  }

  /// A value over `kept` dimensions of a space, broadcast along the others.
  static Ref broadcast(const Ref& r, const std::vector<int64_t>& space, const std::vector<int32_t>& dims) {
    Ref out = r;
    out.sizes.clear();
    out.strides.clear();
    size_t k = 0;
    for (size_t d = 0; d < space.size(); ++d) {
      const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int32_t>(d)) != dims.end();
      out.sizes.emplace_back(space[d]);
      out.strides.push_back(reduced ? Size(0) : r.strides[k++]);
    }
    return out;
  }

  Builder& builder() { return builder_; }

 private:
  std::mt19937_64 random_;
  Builder builder_;
  int inputs_ = 0;
};

uint64_t seed_of(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}
int rounds() {
  const char* text = std::getenv("SPYRE_FUZZ");
  return text ? std::atoi(text) : 60;
}

TEST(RowsFuzz, Maps) {
  const uint64_t first = seed_of("SPYRE_FUZZ_SEED", 1);
  for (int i = 0; i < rounds(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Generator g(seed);
    const auto space = g.sizes(static_cast<int>(g.pick(0, 5)), 6000);
    g.builder().output(g.map(space, {}));
    run_candidates(std::move(g.builder()).finish(), {}, seed, 2, g.chance(0.2) ? seed : 0);
    if (HasFailure()) return;
  }
}

TEST(RowsFuzz, Reduces) {
  const uint64_t first = seed_of("SPYRE_FUZZ_SEED", 1);
  for (int i = 0; i < rounds(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Generator g(seed + 1000000);
    const auto space = g.sizes(static_cast<int>(g.pick(1, 4)), 6000);
    std::vector<int32_t> dims;
    for (size_t d = 0; d < space.size(); ++d)
      if (g.chance(0.5)) dims.push_back(static_cast<int32_t>(d));
    if (dims.empty()) dims.push_back(0);
    for (const Ref& r : g.reduce(space, dims, std::nullopt)) g.builder().output(r);
    run_candidates(std::move(g.builder()).finish(), {}, seed, 3, g.chance(0.2) ? seed : 0);
    if (HasFailure()) return;
  }
}

TEST(RowsFuzz, Chains) {
  const uint64_t first = seed_of("SPYRE_FUZZ_SEED", 1);
  int fused = 0;
  for (int i = 0; i < rounds(); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Generator g(seed + 2000000);
    const int rank = static_cast<int>(g.pick(1, 4));
    const auto space = g.sizes(rank, 6000);
    std::vector<Ref> values = {g.map(space, {})};
    const std::vector<int32_t> dims = {rank - 1};
    const int64_t steps = g.pick(1, 4);
    for (int64_t s = 0; s < steps; ++s) {
      const Ref from = values[static_cast<size_t>(g.pick(0, static_cast<int64_t>(values.size()) - 1))];
      if (g.chance(0.4)) {
        const auto results = g.reduce(space, dims, from);
        values.push_back(Generator::broadcast(
            results[static_cast<size_t>(g.pick(0, static_cast<int64_t>(results.size()) - 1))], space, dims));
        if (g.chance(0.3)) g.builder().output(results[0]);
      } else {
        std::vector<Ref> inside = {from};
        if (g.chance(0.5)) inside.push_back(values.back());
        values.push_back(g.map(space, inside));
        if (g.chance(0.3)) g.builder().output(values.back());
      }
    }
    g.builder().output(
        g.map(space, {values.back(), values[static_cast<size_t>(g.pick(0, static_cast<int64_t>(values.size()) - 1))]}));
    const uint64_t scramble = g.chance(0.2) ? seed : 0;
    const Graph graph = std::move(g.builder()).finish();
    // As one kernel if it is one, else each node alone.
    std::vector<std::vector<Id>> one = {{}}, each;
    for (Id n = 0; n < static_cast<Id>(graph.nodes.size()); ++n) one[0].push_back(n), each.push_back({n});
    std::vector<plan::KernelPlan> empty(1);
    empty[0].nodes = one[0];
    const plan::Plan plan = plain_plan(as_prepared(graph), empty, scramble);
    const bool together = plan::rows_accepts({graph, plan, for_test::test_device().description()}, one[0]);
    fused += together;
    run_candidates(graph, together ? one : each, seed, 2, scramble);
    if (HasFailure()) return;
  }
  EXPECT_GT(fused, rounds() / 4);
}

}  // namespace
}  // namespace spyre::lower
