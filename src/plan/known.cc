// Expressions without what is known before the launch: bounds that indices of a space can't leave, branches that are
// never taken, sums with nothing.
#include <algorithm>

#include "plan/axes.h"
#include "plan/simplify.h"
#include "program/interval.h"

namespace spyre::plan {

namespace {

using graph::Expr;
using graph::Graph;
using graph::Load;
using graph::Map;
using graph::Reg;
using graph::VecOp;
using program::Interval;

/// What an i32 or predicate expression can be; nothing when it isn't known, or may leave int32.
using Range = std::optional<Interval>;

Range within_i32(Interval i) { return i.lo < INT32_MIN || i.hi > INT32_MAX ? std::nullopt : Range(i); }

/// Whether the comparison has one answer for all these numbers.
std::optional<bool> compared(VecOp op, Interval a, Interval b) {
  const auto decided = [](bool always, bool never) { return always || never ? std::optional(always) : std::nullopt; };
  const bool apart = a.hi < b.lo || b.hi < a.lo, same = a.is_point() && a == b;
  switch (op) {
    case VecOp::lt:
      return decided(a.hi < b.lo, a.lo >= b.hi);
    case VecOp::le:
      return decided(a.hi <= b.lo, a.lo > b.hi);
    case VecOp::gt:
      return decided(a.lo > b.hi, a.hi <= b.lo);
    case VecOp::ge:
      return decided(a.lo >= b.hi, a.hi < b.lo);
    case VecOp::eq:
      return decided(same, apart);
    case VecOp::ne:
      return decided(apart, same);
    default:
      return std::nullopt;
  }
}

/// Operations that stop the program for some operands, where these aren't known to be others.
bool may_stop(const Expr& e) {
  if (e.leaf != Expr::Leaf::none) return false;
  const bool divides =
      e.op == VecOp::div || e.op == VecOp::floor_div || e.op == VecOp::remainder || e.op == VecOp::fmod;
  return e.trap || (divides && e.type == Reg::i32) || std::any_of(e.args.begin(), e.args.end(), may_stop);
}

bool may_stop(const Load& load) {
  return std::any_of(load.gathers.begin(), load.gathers.end(),
                     [](const Load::Gather& g) { return g.outside == graph::OnOutside::trap || may_stop(g.index); });
}

/// Whether making the node's results may stop the program; `by_value`: whether making what it reads may.
bool may_stop(const graph::Node& node, const std::vector<bool>& by_value) {
  for (const graph::Ref* ref : graph::reads(node.kind)) {
    if (by_value[at(ref->value)]) return true;
  }
  return std::visit(
      [](const auto& n) {
        using N = std::remove_cvref_t<decltype(n)>;
        if constexpr (std::is_same_v<N, graph::Scatter> || std::is_same_v<N, graph::Contract>) return true;
        if constexpr (requires { n.trap; }) {
          if (n.trap) return true;
        }
        if constexpr (requires { n.loads; }) {
          if (std::any_of(n.loads.begin(), n.loads.end(), [](const Load& l) { return may_stop(l); })) return true;
          if constexpr (std::is_same_v<N, Map>) {
            return std::any_of(n.value.begin(), n.value.end(), [](const Expr& e) { return may_stop(e); });
          } else {
            return may_stop(n.value);
          }
        }
        return false;
      },
      node.kind);
}

class Known {
 public:
  /// `stops`: per value, whether making it may stop the program.
  Known(std::span<const graph::Size> space, const std::vector<Load>& loads, const std::vector<bool>& stops)
      : space_(space), loads_(loads), stops_(stops) {}

  /// Simplifies in place; gives the range of what is left.
  Range operator()(Expr& e) {
    if (e.leaf != Expr::Leaf::none) return leaf(e);
    std::vector<Range> of;
    for (Expr& a : e.args) of.push_back((*this)(a));
    const auto checked = [&](const Expr& a) { return stops(a); };
    if (const auto known = answer(e, of); known && std::none_of(e.args.begin(), e.args.end(), checked)) {
      e = Expr::pred(*known);
      return Interval::point(*known);
    }
    const std::optional<size_t> same = only_operand(e, of);
    if (same && std::count_if(e.args.begin(), e.args.end(), checked) == (checked(e.args[*same]) ? 1 : 0)) {
      Expr left = std::move(e.args[*same]);
      e = std::move(left);
      return of[*same];
    }
    const Range known = e.type == Reg::i32 ? range(e, of) : std::nullopt;
    if (known) e.trap = false;
    return known;
  }

 private:
  Range leaf(const Expr& e) const {
    switch (e.leaf) {
      case Expr::Leaf::constant:
        return e.type == Reg::f32 ? std::nullopt : Range(Interval::point(e.integer));
      case Expr::Leaf::size:
        return within_i32(Interval::point(number(e.size)));
      case Expr::Leaf::iota:
        return within_i32({0, std::max<int64_t>(number(space_[static_cast<size_t>(e.id)]) - 1, 0)});
      default:
        return std::nullopt;
    }
  }

  /// Whether the program may stop for the expression's sake: then it is computed, also where nobody needs it.
  bool stops(const Expr& e) const {
    if (may_stop(e)) return true;
    if (e.leaf == Expr::Leaf::load) {
      const Load& load = loads_[at(e.id)];
      return may_stop(load) || stops_[at(load.ref.value)];
    }
    return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return stops(a); });
  }

  static bool is(const Range& r, int64_t number) { return r && *r == Interval::point(number); }

  /// A predicate that is always the same.
  static std::optional<bool> answer(const Expr& e, const std::vector<Range>& of) {
    if (e.type != Reg::pred) return std::nullopt;
    switch (e.op) {
      case VecOp::logical_and:
        if (is(of[0], 0) || is(of[1], 0)) return false;
        return is(of[0], 1) && is(of[1], 1) ? std::optional(true) : std::nullopt;
      case VecOp::logical_or:
        if (is(of[0], 1) || is(of[1], 1)) return true;
        return is(of[0], 0) && is(of[1], 0) ? std::optional(false) : std::nullopt;
      case VecOp::logical_not:
        return is(of[0], 0) ? std::optional(true) : is(of[0], 1) ? std::optional(false) : std::nullopt;
      default:
        return of.size() == 2 && of[0] && of[1] ? compared(e.op, *of[0], *of[1]) : std::nullopt;
    }
  }

  /// The operand that the operation gives back, whatever the others are.
  static std::optional<size_t> only_operand(const Expr& e, const std::vector<Range>& of) {
    const auto either = [&](int64_t neutral) -> std::optional<size_t> {
      if (is(of[0], neutral)) return 1;
      if (is(of[1], neutral)) return 0;
      return std::nullopt;
    };
    switch (e.op) {
      case VecOp::logical_and:
        return either(1);
      case VecOp::logical_or:
        return either(0);
      case VecOp::select:
        return is(of[0], 1) ? std::optional<size_t>(1) : is(of[0], 0) ? std::optional<size_t>(2) : std::nullopt;
      case VecOp::add:
        return e.type == Reg::i32 ? either(0) : std::nullopt;
      case VecOp::mul:
        return e.type == Reg::i32 ? either(1) : std::nullopt;
      case VecOp::sub:
        return e.type == Reg::i32 && is(of[1], 0) ? std::optional<size_t>(0) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static Range range(const Expr& e, const std::vector<Range>& of) {
    if (e.op == VecOp::select) return of[1] && of[2] ? Range(hull(*of[1], *of[2])) : std::nullopt;
    if (e.op == VecOp::cast && e.args[0].type == Reg::pred) return of[0] ? of[0] : Range(Interval{0, 1});
    if (of.size() != 2 || !of[0] || !of[1]) return std::nullopt;
    switch (e.op) {
      case VecOp::add:
        return within_i32(*of[0] + *of[1]);
      case VecOp::sub:
        return within_i32(*of[0] - *of[1]);
      case VecOp::mul: {  // of 32 bits each: no product leaves 64
        const auto [low, high] =
            std::minmax({of[0]->lo * of[1]->lo, of[0]->lo * of[1]->hi, of[0]->hi * of[1]->lo, of[0]->hi * of[1]->hi});
        return within_i32({low, high});
      }
      case VecOp::min:
        return program::min(*of[0], *of[1]);
      case VecOp::max:
        return program::max(*of[0], *of[1]);
      default:
        return std::nullopt;
    }
  }

  std::span<const graph::Size> space_;
  const std::vector<Load>& loads_;
  const std::vector<bool>& stops_;
};

void mark_loads(const Expr& e, std::vector<bool>& used) {
  if (e.leaf == Expr::Leaf::load) used[at(e.id)] = true;
  for (const Expr& a : e.args) mark_loads(a, used);
}

void renumber_loads(Expr& e, const std::vector<Id>& to) {
  if (e.leaf == Expr::Leaf::load) e.id = to[at(e.id)];
  for (Expr& a : e.args) renumber_loads(a, to);
}

/// Drops loads that no expression uses any more. `each` calls its argument with every expression of the node but the
/// indices of its loads.
template <typename Each>
void drop_unused(std::vector<Load>& loads, Each each) {
  std::vector<bool> used(loads.size());
  each([&](Expr& e) { mark_loads(e, used); });
  for (size_t l = loads.size(); l-- > 0;) {  // an index may name the loads before it
    if (!used[l]) continue;
    for (const Load::Gather& gather : loads[l].gathers) mark_loads(gather.index, used);
  }
  std::vector<Id> to(loads.size());
  std::vector<Load> kept;
  for (size_t l = 0; l < loads.size(); ++l) {
    to[l] = static_cast<Id>(kept.size());
    if (used[l]) kept.push_back(std::move(loads[l]));
  }
  if (kept.size() == loads.size()) return void(loads = std::move(kept));
  loads = std::move(kept);
  each([&](Expr& e) { renumber_loads(e, to); });
  for (Load& load : loads)
    for (Load::Gather& gather : load.gathers) renumber_loads(gather.index, to);
}

}  // namespace

void simplify_indices(Graph& g) {
  const std::vector<bool> stops(g.values.size(), true);
  for (graph::Node& node : g.nodes) {
    std::visit(
        [&](auto& n) {
          if constexpr (requires { n.loads; }) {
            for (Load& load : n.loads)
              for (Load::Gather& gather : load.gathers) Known(n.space, n.loads, stops)(gather.index);
          }
        },
        node.kind);
  }
}

void drop_known(Graph& g) {
  std::vector<bool> stops(g.values.size());
  for (graph::Node& node : g.nodes) {
    std::visit(
        [&](auto& n) {
          using N = std::remove_cvref_t<decltype(n)>;
          if constexpr (requires { n.loads; }) {
            const auto each_value = [&](auto&& fn) {
              if constexpr (std::is_same_v<N, Map>) {
                for (Expr& e : n.value) fn(e);
              } else {
                fn(n.value);
              }
            };
            const auto each = [&](auto&& fn) {
              each_value(fn);
              if constexpr (std::is_same_v<N, graph::Scatter>) {
                for (auto& target : n.targets) fn(target.index);
              }
            };
            Known known(n.space, n.loads, stops);
            each_value(known);
            drop_unused(n.loads, each);
          }
        },
        node.kind);
    for (Id r : node.results) stops[at(r)] = may_stop(node, stops);
  }
}

}  // namespace spyre::plan
