// The index of a load with gathers.
#include <cstdlib>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "lower/element_program.h"

namespace spyre::lower {

using graph::Expr;
using program::OnOutside;
using program::VecExpr;
using program::VecOp;

/// The index of a load with gathers, one value per row of its tile. One gather counts in its own dimension; several,
/// or one along an axis that the load also follows, count in common steps of their strides.
BufRef ElementProgram::index_of(size_t node, graph::Id load, const Tile& sub, IndexDim& dim) {
  const plan::AxisRef& ref = axes_.nodes[node].reads[load];
  const auto& gathers = access_.load_of(node, load).gathers;
  for (const graph::Load::Gather& g : gathers) {
    const plan::NodeAxes& axes = axes_.nodes[node];
    std::function<void(const Expr&)> check = [&](const Expr& e) {
      if (e.leaf == Expr::Leaf::load && axes.reads[e.id].internal && !inlined(axes.reads[e.id].value))
        fail(Fault::program, "an index is computed in the kernel that uses it");
      for (const Expr& a : e.args) check(a);
    };
    check(g.index);
  }
  const std::vector<int64_t> shape = sub.ones().size() == 1 && !sub.axes.empty() ? sub.shape : sub.ones();
  const int axis = sub.axes.empty() ? -1 : sub.axes[0];
  const auto buffer_of = [&](VecExpr value) {
    // What is an i32 buffer of these rows already needs no step.
    if (value.op == VecOp::operand && builder_.buffer_of(value.ref.buffer).format == Format::i32 &&
        builder_.buffer_of(value.ref.buffer).shape == shape)
      return value.ref;
    const BufRef to = access_.boxed(builder_.buffer(Format::i32, shape, 1, "index"), sub);
    builder_.vector({to}, {std::move(value)});
    return to;
  };
  if (gathers.size() == 1 && !dim.absorbs && ref.gathers[0] > 0) {
    dim.size = plan::number(gathers[0].bound);
    dim.stride = ref.gathers[0];
    dim.outside = gathers[0].outside;
    return buffer_of(convert(gathers[0].index, node, sub, 1));
  }
  const int64_t along = dim.absorbs ? ref.strides[axis] : 0;
  int64_t step = std::abs(along), last = 0;
  for (const int64_t s : ref.gathers) step = std::gcd(step, std::abs(s));
  if (step == 0) step = 1;
  VecExpr total = integer(0);
  VecExpr bad = apply(VecOp::ne, {integer(0), integer(0)}), worse = bad;
  bool any_fill = false, any_trap = false;
  const auto add = [&](VecExpr index, int64_t stride, int64_t size) {
    if (stride == 0) return;
    if (stride < 0) {
      dim.offset += stride * (size - 1);
      index = apply(VecOp::sub, {integer(size - 1), std::move(index)});
    }
    last += (size - 1) * (std::abs(stride) / step);
    if (last >= std::numeric_limits<int32_t>::max())
      fail(Fault::unimplemented, "a gather reaches {} elements, more than an index can count", last + 1);
    index = apply(VecOp::mul, {std::move(index), integer(std::abs(stride) / step)});
    total = apply(VecOp::add, {std::move(total), std::move(index)});
  };
  for (size_t i = 0; i < gathers.size(); ++i) {
    const int64_t bound = plan::number(gathers[i].bound);
    const VecExpr index = convert(gathers[i].index, node, sub, 1);
    VecExpr out =
        apply(VecOp::logical_or, {apply(VecOp::lt, {index, integer(0)}), apply(VecOp::ge, {index, integer(bound)})});
    const bool trap = gathers[i].outside == OnOutside::trap;
    (trap ? any_trap : any_fill) = true;
    VecExpr& all = trap ? worse : bad;
    all = apply(VecOp::logical_or, {std::move(all), std::move(out)});
    add(index, ref.gathers[i], bound);
  }
  if (along != 0) add(access_.axis_index(axis, sub), along, axes_.sizes[axis]);
  if (any_fill && any_trap) {  // an overflow where an index must not be outside, then fill where it may
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    VecExpr trap = apply(VecOp::add,
                         {apply(VecOp::select, {worse, integer(most), integer(0)}),
                          apply(VecOp::select, {worse, integer(1), integer(0)})},
                         true);
    total = apply(VecOp::add, {std::move(total), std::move(trap)});
  } else if (any_trap) {
    bad = std::move(worse);
  }
  total = apply(VecOp::select, {std::move(bad), integer(-1), std::move(total)});
  dim.size = last + 1;
  dim.stride = step;
  dim.outside = any_fill ? OnOutside::fill : OnOutside::trap;
  return buffer_of(std::move(total));
}

}  // namespace spyre::lower
