#include "lower/element_program.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "program/vector_rules.h"

namespace spyre::lower {

using base::HostType;
using graph::Expr;
using graph::Map;
using graph::Reduce;
using program::Monoid;
using program::OnOutside;
using program::Reg;
using program::VecExpr;
using program::VecOp;

namespace {

/// Inlined expressions stay below this many operations, and this deep.
constexpr int64_t most_operations = 400;
constexpr int most_levels = 40;

int64_t operations(const VecExpr& e) {
  int64_t n = 1;
  for (const VecExpr& a : e.args) n += operations(a);
  return n;
}
int levels(const VecExpr& e) {
  int n = 0;
  for (const VecExpr& a : e.args) n = std::max(n, levels(a));
  return n + 1;
}
bool too_large(const VecExpr& e) { return operations(e) > most_operations || levels(e) > most_levels; }

/// Types whose values need nothing but the register's own precision.
bool plain(HostType type) {
  switch (type) {
    case HostType::u8:
    case HostType::i8:
    case HostType::i16:
    case HostType::e4m3:
    case HostType::e5m2:
      return false;
    default:
      return true;
  }
}

/// The buffer of a value that stays in LX.
Format resident_format(HostType type) {
  if (type == HostType::f16 || type == HostType::bf16) return Format::f32;  // as precise as registers
  return base::device_format(type);
}

void operands(const VecExpr& e, std::vector<const BufRef*>& out) {
  if (e.op == VecOp::operand) out.push_back(&e.ref);
  for (const VecExpr& a : e.args) operands(a, out);
}

}  // namespace

ElementProgram::ElementProgram(KernelBuilder& builder, const Context& context, const plan::Axes& axes, Emitted& emitted)
    : builder_(builder), context_(context), axes_(axes), emitted_(emitted), access_(builder, context, axes, emitted) {
  for (size_t n = 0; n < axes.nodes.size(); ++n) {
    const graph::Node& node = node_of(n);
    for (size_t r = 0; r < node.results.size(); ++r) made_[node.results[r]] = {n, r};
  }
}

bool ElementProgram::stored(graph::Id value) const { return plan::in_memory(context_.plan.homes[value].kind); }

void ElementProgram::provide(graph::Id value, BufRef buffer) { provided_[value] = std::move(buffer); }

// ------------------------------------------------------------------------------------------------------ expressions

VecExpr ElementProgram::expression(const Expr& expr, const std::function<VecExpr(graph::Id load)>& operand,
                                   const std::function<VecExpr(int dim)>& iota) {
  switch (expr.leaf) {
    case Expr::Leaf::load:
      return operand(expr.id);
    case Expr::Leaf::constant:
      if (expr.type == Reg::f32) return number(expr.number);
      if (expr.type == Reg::i32) return integer(expr.integer);
      return apply(VecOp::ne, {integer(expr.integer), integer(0)});
    case Expr::Leaf::size:
      return integer(plan::number(expr.size));
    case Expr::Leaf::param: {
      auto found = scalars_.find(expr.id);
      if (found == scalars_.end()) {
        const graph::Param& param = context_.graph.params[expr.id];
        using Int = std::numeric_limits<int32_t>;
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const Id scalar = param.is_float ? builder_.add_scalar(param.name, true, -infinity, infinity)
                                         : builder_.add_scalar(param.name, false, Int::min(), Int::max());
        emitted_.scalars.push_back(expr.id);
        found = scalars_.emplace(expr.id, scalar).first;
      }
      return builder_.use_scalar(found->second);
    }
    case Expr::Leaf::iota:
      return iota(expr.id);
    case Expr::Leaf::none:
      break;
  }
  std::vector<VecExpr> args;
  for (const Expr& a : expr.args) args.push_back(expression(a, operand, iota));
  if (expr.op == VecOp::cast) return cast(std::move(args[0]), expr.type, expr.trap);
  if (expr.op == VecOp::philox) {
    VecExpr e;
    e.op = VecOp::philox;
    e.type = Reg::i32;
    e.integer = expr.integer;
    e.args = std::move(args);
    return e;
  }
  return apply(expr.op, std::move(args), expr.trap);
}

VecExpr ElementProgram::value_in(const BufRef& ref, HostType type) const {
  VecExpr e = builder_.use(ref);
  if (type != HostType::b8) return e;
  VecExpr zero = e.type == Reg::f32 ? number(0) : integer(0);
  return apply(VecOp::ne, {std::move(e), std::move(zero)});
}

VecExpr ElementProgram::convert(const Expr& expr, size_t node, const Tile& tile, int32_t slots) {
  return expression(
      expr, [&](graph::Id load) { return operand(node, load, tile, slots); },
      [&](int dim) {
        // Row-major over the dimension's axes.
        VecExpr index = integer(0);
        bool first = true;
        for (const int axis : axes_.nodes[node].dims[dim]) {
          VecExpr step = access_.axis_index(axis, tile);
          if (!first) {
            index = apply(VecOp::mul, {std::move(index), integer(axes_.sizes[axis])});
            step = apply(VecOp::add, {std::move(index), std::move(step)});
          }
          index = std::move(step);
          first = false;
        }
        return index;
      });
}

/// True when the value, whose readers are being emitted, is part of their expression.
bool ElementProgram::inlined(graph::Id value) const {
  const auto made = made_.find(value);
  return made != made_.end() && made->second.inlined && !held_.count(value);
}

VecExpr ElementProgram::operand(size_t node, graph::Id load, const Tile& tile, int32_t slots) {
  const plan::AxisRef& ref = axes_.nodes[node].reads[load];
  const HostType type = context_.graph.values[access_.load_of(node, load).ref.value].type;
  if (ref.internal) {
    if (const auto found = provided_.find(ref.value); found != provided_.end()) return value_in(found->second, type);
    const Made& made = made_.at(ref.value);
    if (inlined(ref.value))
      return convert(std::get<Map>(node_of(made.node).kind).value[made.result], made.node, tile, slots);
    const auto held = held_.find(ref.value);
    if (held == held_.end())
      fail(Fault::program, "{} is read before it is made", context_.graph.values[ref.value].name);
    return value_in(held->second.ref, type);
  }
  const BufRef buffer = access_.load(node, load, tile, slots,
                                     [&](const Tile& sub, IndexDim& dim) { return index_of(node, load, sub, dim); });
  return value_in(buffer, type);
}

// ---------------------------------------------------------------------------------------------------------- buffers

std::vector<int64_t> ElementProgram::shape_of(size_t node, const Tile& tile, bool reduced) const {
  std::vector<int64_t> shape = tile.ones();
  const plan::NodeAxes& axes = axes_.nodes[node];
  for (size_t p = 0; p < tile.axes.size(); ++p)
    if (axes.has[tile.axes[p]] && !(reduced && axes.reduced[tile.axes[p]])) shape[p] = tile.shape[p];
  return shape;
}

Id ElementProgram::take(Format format, const std::vector<int64_t>& shape) {
  auto& free = pool_[{format, shape}];
  if (free.empty()) return builder_.buffer(format, shape, 1, "t");
  const Id buffer = free.back();
  free.pop_back();
  return buffer;
}

/// Counts down what the expression reads; buffers nobody needs any more are free.
void ElementProgram::used(const Expr& expr, size_t node) {
  for (const Expr& a : expr.args) used(a, node);
  if (expr.leaf != Expr::Leaf::load) return;
  const plan::AxisRef& ref = axes_.nodes[node].reads[expr.id];
  if (!ref.internal) return;
  const auto made = made_.find(ref.value);
  if (made == made_.end()) return;
  if (made->second.inlined)
    return used(std::get<Map>(node_of(made->second.node).kind).value[made->second.result], made->second.node);
  if (--made->second.uses > 0) return;
  const auto held = held_.find(ref.value);
  if (held == held_.end() || !held->second.pooled) return;
  const program::Buffer& buffer = builder_.buffer_of(held->second.ref.buffer);
  pool_[{buffer.format, buffer.shape}].push_back(held->second.ref.buffer);
  held->second.pooled = false;
}

void ElementProgram::count_uses(const Expr& expr, size_t node) {
  for (const Expr& a : expr.args) count_uses(a, node);
  if (expr.leaf != Expr::Leaf::load) return;
  const plan::AxisRef& ref = axes_.nodes[node].reads[expr.id];
  if (const auto made = made_.find(ref.value); ref.internal && made != made_.end()) ++made->second.uses;
  for (const graph::Load::Gather& g : access_.load_of(node, expr.id).gathers) count_uses(g.index, node);
}

/// A value that only the kernel reads, and a buffer of which would be as precise as registers.
bool ElementProgram::may_inline(graph::Id value) const {
  const auto made = made_.find(value);
  return made != made_.end() && !provided_.count(value) && !stored(value) &&
         std::holds_alternative<Map>(node_of(made->second.node).kind) && plain(context_.graph.values[value].type);
}

/// Whether the value is computed where it is read: by one reader along the same dimensions of the tile, or by several
/// in one place, if that takes less than a buffer does.
bool ElementProgram::inlines(graph::Id value, size_t node, size_t first, size_t last, const Tile& tile) {
  const int64_t uses = made_.at(value).uses;
  if (uses == 0 || !may_inline(value)) return false;
  if (uses > 1 && (uses > 3 || operations_again(made_.at(value), tile) > 2)) return false;
  size_t home = 0;
  for (size_t n = std::max(first, node + 1); n < last; ++n)
    for (const plan::AxisRef& ref : axes_.nodes[n].reads) {
      if (!ref.internal || ref.value != value) continue;
      if (shape_of(n, tile, false) != shape_of(node, tile, false) || (home != 0 && home != home_[n])) return false;
      home = home_[n];
    }
  if (home == 0) return false;
  home_[node] = home;
  return true;
}

/// What a second reader in the same expression costs: sums and products of what need not be kept for it (a bias on the
/// accumulator); large for anything else.
int64_t ElementProgram::operations_again(const Made& made, const Tile& tile) const {
  constexpr int64_t large = 1000;
  const std::function<int64_t(const Expr&)> count = [&](const Expr& e) -> int64_t {
    if (e.leaf == Expr::Leaf::load) {
      const plan::AxisRef& ref = axes_.nodes[made.node].reads[e.id];
      if (!access_.load_of(made.node, e.id).gathers.empty()) return large;
      if (!ref.internal || provided_.count(ref.value)) return 0;
      const auto from = made_.find(ref.value);
      const bool inlined = from != made_.end() && from->second.uses == 1 && may_inline(ref.value) &&
                           shape_of(from->second.node, tile, false) == shape_of(made.node, tile, false);
      return inlined ? operations_again(from->second, tile) : large;
    }
    if (e.leaf != Expr::Leaf::none) return 0;
    if (e.op != VecOp::add && e.op != VecOp::sub && e.op != VecOp::mul) return large;
    int64_t n = 1;
    for (const Expr& a : e.args) n += count(a);
    return n;
  };
  return count(std::get<Map>(node_of(made.node).kind).value[made.result]);
}

/// True when the operands reach along every dimension of the tile that the node has.
bool ElementProgram::covers(const VecExpr& expr, size_t node, const Tile& tile) const {
  std::vector<const BufRef*> refs;
  operands(expr, refs);
  const std::vector<int64_t> want = shape_of(node, tile, false);
  std::vector<int64_t> have(want.size(), 1);
  for (const BufRef* r : refs) {
    const auto& shape = builder_.buffer_of(r->buffer).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& h = have[have.size() - shape.size() + d];
      h = std::max(h, shape[d]);
    }
  }
  return !refs.empty() && have == want && std::any_of(refs.begin(), refs.end(), [&](const BufRef* r) {
    return builder_.buffer_of(r->buffer).shape.size() == want.size();
  });
}

BufRef ElementProgram::materialize(size_t node, VecExpr expr, const Tile& tile, bool pooled) {
  const Format format = expr.type == Reg::f32 ? Format::f32 : expr.type == Reg::i32 ? Format::i32 : Format::dl16;
  const auto shape = shape_of(node, tile, false);
  const Id buffer = pooled ? take(format, shape) : builder_.buffer(format, shape, 1, "t");
  const BufRef ref = access_.boxed(buffer, tile);
  builder_.vector({ref}, {std::move(expr)});
  return ref;
}

// ------------------------------------------------------------------------------------------------------------ nodes

namespace {

bool reads(const Expr& e, graph::Id load) {
  return (e.leaf == Expr::Leaf::load && e.id == load) ||
         std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return reads(a, load); });
}

/// False for what only indices of the node's gathers read: they load it in their own shape.
bool value_reads(const graph::Node& node, graph::Id load) {
  if (const auto* map = std::get_if<Map>(&node.kind))
    return std::any_of(map->value.begin(), map->value.end(), [&](const Expr& e) { return reads(e, load); });
  if (const auto* reduce = std::get_if<Reduce>(&node.kind)) return reads(reduce->value, load);
  return true;
}

}  // namespace

void ElementProgram::preload(size_t first, size_t last, const Tile& tile, const std::vector<bool>& moving) {
  for (size_t n = first; n < last; ++n) {
    const plan::NodeAxes& node = axes_.nodes[n];
    const auto loads = graph::loads_of(node_of(n).kind);
    for (size_t r = 0; r < loads.size(); ++r) {
      const plan::AxisRef& ref = node.reads[r];
      if (ref.internal || !loads[r].gathers.empty() || !value_reads(node_of(n), static_cast<graph::Id>(r))) continue;
      bool still = true;
      for (size_t a = 0; a < moving.size(); ++a)
        still = still && ref.strides[a] >= 0 && (!moving[a] || ref.strides[a] == 0);
      if (!still) continue;
      builder_.loc(node_of(n).loc);
      access_.load(n, static_cast<graph::Id>(r), tile, 1, {});
    }
  }
  access_.keep();
}

void ElementProgram::emit(size_t first, size_t last, const Tile& tile, int32_t slots) {
  access_.next_tile();
  pool_.clear();
  held_.clear();
  for (auto& [value, made] : made_) made.uses = 0, made.inlined = false;
  for (size_t n = first; n < last; ++n) {
    if (const auto* map = std::get_if<Map>(&node_of(n).kind))
      for (const Expr& e : map->value) count_uses(e, n);
    if (const auto* reduce = std::get_if<Reduce>(&node_of(n).kind)) count_uses(reduce->value, n);
  }
  // From the last: readers know by then where they are computed.
  home_.resize(last);
  for (size_t n = last; n-- > first;) {
    home_[n] = n;
    for (const graph::Id value : node_of(n).results) made_.at(value).inlined = inlines(value, n, first, last, tile);
  }
  pending_.clear();
  for (size_t n = first; n < last; ++n) {
    builder_.loc(node_of(n).loc);
    if (std::holds_alternative<Map>(node_of(n).kind))
      emit_map(n, tile, slots);
    else if (std::holds_alternative<Reduce>(node_of(n).kind))
      emit_reduce(n, tile, slots);
    else if (std::any_of(node_of(n).results.begin(), node_of(n).results.end(),
                         [&](graph::Id r) { return !provided_.count(r); }))
      fail(Fault::program, "{} is no node for a tile", graph::kind_name(node_of(n).kind));
  }
  flush();
}

/// At once, or last where the kernel stores over an input: that has been read by then.
void ElementProgram::store(size_t node, size_t result, const BufRef& from, const Tile& tile) {
  const graph::Id value = node_of(node).results[result];
  if (context_.plan.homes[value].kind == plan::Home::Kind::replaces)
    pending_.push_back({node, result, from, tile});
  else
    access_.store(node, result, from, tile);
}

void ElementProgram::flush() {
  for (const Pending& p : pending_) {
    builder_.loc(node_of(p.node).loc);
    access_.store(p.node, p.result, p.from, p.tile);
  }
  pending_.clear();
}

void ElementProgram::emit_map(size_t n, const Tile& tile, int32_t slots) {
  const Map& map = std::get<Map>(node_of(n).kind);
  for (size_t r = 0; r < map.value.size(); ++r) {
    Made& made = made_.at(node_of(n).results[r]);
    const bool stores = stored(node_of(n).results[r]);
    if (!stores && made.uses == 0) continue;
    VecExpr expr;
    if (made.inlined) {
      expr = convert(map.value[r], n, tile, slots);
      if (!too_large(expr)) continue;  // again where it is read
      made.inlined = false;
    } else {
      expr = convert(map.value[r], n, tile, slots);
    }
    used(map.value[r], n);
    finish_value(n, r, std::move(expr), shape_of(n, tile, false), tile, slots);
  }
}

void ElementProgram::finish_value(size_t n, size_t result, VecExpr expr, const std::vector<int64_t>& shape,
                                  const Tile& tile, int32_t slots) {
  const graph::Id value = node_of(n).results[result];
  const HostType type = context_.graph.values[value].type;
  if (type == HostType::u8) {
    if (expr.type == Reg::i32) expr = apply(VecOp::bit_and, {std::move(expr), integer(255)});
  }
  const bool stores = stored(value);
  Format format = resident_format(type);
  if (stores) format = context_.plan.homes[axes_.nodes[n].results[result].value].geometry.format;
  const Id buffer =
      stores ? builder_.buffer(format, shape, slots, context_.graph.values[value].name) : take(format, shape);
  const BufRef ref = access_.boxed(buffer, tile);
  builder_.vector({ref}, {std::move(expr)});
  held_[value] = {ref, !stores};
  if (stores) store(n, result, ref, tile);
}

std::vector<Format> ElementProgram::state_formats(size_t n) const {
  const Reduce& reduce = std::get<Reduce>(node_of(n).kind);
  const int states = program::states_of(reduce.monoid);
  const Reg value = reduce.value.type;
  std::vector<Format> out;
  for (int s = 0; s < states; ++s) {
    const bool index = (reduce.monoid == Monoid::argmax || reduce.monoid == Monoid::argmin) && s == 1;
    out.push_back(index || value == Reg::i32 ? Format::i32 : value == Reg::pred ? Format::dl16 : Format::f32);
  }
  return out;
}

ElementProgram::Value ElementProgram::reduced_value(size_t n, const Tile& tile, int32_t slots) {
  const Reduce& reduce = std::get<Reduce>(node_of(n).kind);
  Value v;
  v.expr = convert(reduce.value, n, tile, slots);
  v.covered = covers(v.expr, n, tile);
  return v;
}

void ElementProgram::emit_reduce(size_t n, const Tile& tile, int32_t slots) {
  const Reduce& reduce = std::get<Reduce>(node_of(n).kind);
  std::vector<int> positions;
  for (size_t a = 0; a < axes_.sizes.size(); ++a) {
    if (!axes_.nodes[n].reduced[a]) continue;
    const int p = tile.position(static_cast<int>(a));
    if (p < 0 || tile.shape[p] != axes_.sizes[a])
      fail(Fault::program, "a reduced axis of size {} is not whole in the tile", axes_.sizes[a]);
    positions.push_back(p);
  }
  Value v = reduced_value(n, tile, slots);
  const std::vector<Format> formats = state_formats(n);
  const auto shape = shape_of(n, tile, true);
  std::vector<BufRef> states;
  if (positions.empty()) {  // one element
    for (size_t s = 0; s < formats.size(); ++s) {
      states.push_back(access_.boxed(builder_.buffer(formats[s], shape, 1, "s"), tile));
      VecExpr value = v.expr;
      const bool arg = reduce.monoid == Monoid::argmax || reduce.monoid == Monoid::argmin;
      if (arg && s == 1) value = integer(0);
      // m2: x - x, which is NaN where x isn't finite
      if (reduce.monoid == Monoid::welford && s == 1) value = apply(VecOp::sub, {v.expr, v.expr});
      if (reduce.monoid == Monoid::welford && s == 2) value = number(1);
      if (reduce.monoid == Monoid::logsumexp && s == 1) value = number(1);
      builder_.vector({states.back()}, {std::move(value)});
    }
    used(reduce.value, n);
    return finish_reduce(n, states, tile, slots);
  }
  if (positions.size() > 1 && program::states_of(reduce.monoid) > 1)
    fail(Fault::program, "a tile reduces {} along one axis only", program::monoid_name(reduce.monoid));
  const bool pred = reduce.value.type == Reg::pred;
  if (!v.covered) {
    v.expr = builder_.use(materialize(n, std::move(v.expr), tile, true));
    if (pred) v.expr = apply(VecOp::ne, {std::move(v.expr), number(0)});
  }
  // The innermost axis first; what is left of sums and the like reduces again.
  for (size_t i = positions.size(); i-- > 0;) {
    std::vector<int64_t> left = shape_of(n, tile, false);
    for (size_t j = i; j < positions.size(); ++j) left[positions[j]] = 1;
    states.clear();
    for (const Format f : formats) states.push_back(access_.boxed(builder_.buffer(f, left, 1, "s"), tile));
    builder_.reduce(reduce.monoid, reduce.trap, states, {}, std::move(v.expr), positions[i]);
    v.expr = builder_.use(states[0]);
    if (pred) v.expr = apply(VecOp::ne, {std::move(v.expr), number(0)});
  }
  used(reduce.value, n);
  finish_reduce(n, states, tile, slots);
}

void ElementProgram::finish_reduce(size_t n, const std::vector<BufRef>& states, const Tile& tile, int32_t slots) {
  for (size_t r = 0; r < node_of(n).results.size(); ++r) {
    const graph::Id value = node_of(n).results[r];
    const HostType type = context_.graph.values[value].type;
    const bool stores = stored(value);
    if (!stores && made_.at(value).uses == 0) continue;
    const Format have = builder_.buffer_of(states[r].buffer).format;
    const Format want =
        stores ? context_.plan.homes[axes_.nodes[n].results[r].value].geometry.format : resident_format(type);
    if (have == want && type != HostType::u8) {
      held_[value] = {states[r], false};
      if (stores) store(n, r, states[r], tile);
      continue;
    }
    finish_value(n, r, value_in(states[r], type), shape_of(n, tile, true), tile, slots);
  }
}

}  // namespace spyre::lower
