#include "lower/operands.h"

#include <algorithm>

#include "base/error.h"
#include "lower/element_program.h"

namespace spyre::lower {

using program::Reg;
using program::VecExpr;
using program::VecOp;

namespace {

void collect(const graph::Expr& expr, std::vector<bool>& used) {
  if (expr.leaf == graph::Expr::Leaf::load) used.at(static_cast<size_t>(expr.id)) = true;
  for (const graph::Expr& a : expr.args) collect(a, used);
}

}  // namespace

Operands::Operands(Writer& writer, const Context& context, const program::Loc& loc, std::span<const graph::Load> loads,
                   std::span<const graph::Expr* const> exprs, std::span<const size_t> order, const TileWalk& walk)
    : writer_(writer), context_(context), order_(order.begin(), order.end()), walk_(walk), operands_(loads.size()) {
  std::vector<bool> used(loads.size(), false);
  for (const graph::Expr* expr : exprs) collect(*expr, used);
  for (size_t l = 0; l < loads.size(); ++l) {
    if (!used[l]) continue;
    const graph::Load& load = loads[l];
    if (!load.gathers.empty()) {
      fail(Fault::unimplemented,
           "{} ({}): it reads at places that other data gives: make that a tensor of its own first", loc.op,
           loc.source);
    }
    Placed memory = placed(context, load.ref);
    memory.view = permuted(memory.view, order_);
    Operand operand;
    operand.is_bool = context.graph.values[static_cast<size_t>(memory.value)].type == base::HostType::b8;
    std::vector<Entry> entries;
    std::vector<int64_t> shape;
    for (size_t d = 0; d < memory.view.sizes.size(); ++d) {
      const bool moves = memory.view.strides[d] != 0 && memory.view.sizes[d] != 1;
      if (!moves) memory.view.sizes[d] = 1;
      entries.push_back(moves ? walk.entry(d) : at(constant(0)));
      shape.push_back(moves ? walk.tile[d] : 1);
      if (d == 0) operand.moves_first = moves;
    }
    operand.buffer = writer.builder.buffer(memory.format, shape, 2, "x");
    writer.builder.load(writer.builder.ref(operand.buffer), writer.formal(context, memory, program::Direction::in),
                        std::move(entries));
    operands_[l] = operand;
  }
}

VecExpr Operands::expression(const graph::Expr& expr, Id at) const {
  static const plan::Axes no_axes;
  ElementProgram elements(writer_.builder, context_, no_axes, writer_.emitted);
  return elements.expression(
      expr,
      [&](graph::Id load) {
        const Operand& operand = operands_.at(static_cast<size_t>(load));
        BufRef ref = writer_.builder.ref(operand.buffer);
        if (at != none && operand.moves_first) {
          const Id ranges[] = {at};
          ref = writer_.builder.ref(operand.buffer, ranges);
          ref.box[0] = box(ref.box[0].first, constant(1));  // the loop has one index a trip
        }
        VecExpr e = writer_.builder.use(std::move(ref));
        if (!operand.is_bool) return e;
        return apply(VecOp::ne, {e, e.type == Reg::f32 ? number(0) : integer(0)});
      },
      [&](int dim) {
        const auto found = std::find(order_.begin(), order_.end(), static_cast<size_t>(dim));
        if (found == order_.end()) return integer(0);
        const auto d = static_cast<size_t>(found - order_.begin());
        if (d == 0 && at != none) return integer_of(start(at));
        VecExpr position = iota(static_cast<int>(d));
        const IntExpr first = walk_.first(d);
        return first.is_constant(0) ? position : apply(VecOp::add, {std::move(position), integer_of(first)});
      });
}

VecExpr wrapped(VecExpr value, base::HostType type) {
  if (value.type == Reg::pred) return value;
  if (type == base::HostType::u8) return apply(VecOp::bit_and, {std::move(value), integer(255)});
  const int bits = type == base::HostType::i8 ? 24 : type == base::HostType::i16 ? 16 : 0;
  if (bits == 0) return value;
  return apply(VecOp::shr, {apply(VecOp::shl, {std::move(value), integer(bits)}), integer(bits)});
}

Format lx_format(base::HostType type) {
  const Reg reg = graph::register_of(type);
  return reg == Reg::i32 ? Format::i32 : Format::f32;
}

}  // namespace spyre::lower
