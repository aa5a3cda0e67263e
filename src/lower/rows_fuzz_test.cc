// Random Maps, Reduces and chains over shapes, strides, types, gathers and candidates, run on a card.
// SPYRE_FUZZ_FORMS=<graphs of each kind>, SPYRE_FUZZ_SEED=<first seed>.
#include <gtest/gtest.h>

#include <random>

#include "base/fuzz_for_test.h"
#include "graph/import.h"
#include "lower/rows_for_test.h"

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

int64_t rounds() { return base::fuzz_cases(25, "SPYRE_FUZZ_FORMS"); }

TEST(RowsFuzz, Maps) {
  const uint64_t first = base::fuzz_seed(1);
  for (int64_t i = 0; i < rounds(); ++i) {
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
  const uint64_t first = base::fuzz_seed(1);
  for (int64_t i = 0; i < rounds(); ++i) {
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
  const uint64_t first = base::fuzz_seed(1);
  int fused = 0;
  for (int64_t i = 0; i < rounds(); ++i) {
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
