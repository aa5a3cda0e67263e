// Structure of steps: operands, accesses, expressions.
#include <bit>
#include <cmath>
#include <limits>

#include "program/limits.h"
#include "program/structure_scope.h"
#include "program/vector_rules.h"

namespace spyre::program {

namespace {
using IOp = IntExpr::Op;
bool blank(const BufRef& ref) { return ref == BufRef{}; }
bool blank(const IntExpr& expr) { return expr == IntExpr{}; }
/// The one NaN that containers hold, so that writing and reading give the same bytes.
bool odd_nan(double v) {
  return std::isnan(v) &&
         std::bit_cast<uint64_t>(v) != std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
}
}  // namespace

void StructureScope::check_range(Id id) const {
  if (id < 0 || id >= static_cast<Id>(kernel_.ranges.size()) || !range_in_scope_[id]) {
    refuse(fmt::format("range {} is not in scope", id));
  }
}

void StructureScope::check_grid(Id id) const {
  if (nest_ < 0 || id < 0 || id >= static_cast<Id>(kernel_.nests[nest_].grid.size())) {
    refuse(fmt::format("there is no grid dimension {} here", id));
  }
}

void StructureScope::integer(const IntExpr& expr, int depth) const {
  if (depth > limits::int_depth) refuse("an integer expression has too many levels");
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 2;
  const bool constant = expr.op == IOp::constant, binary = expr.op >= IOp::add;
  if (expr.args.size() != (binary ? 2u : 0u)) refuse("an integer operation with a wrong number of arguments");
  if (constant ? expr.id != none : expr.value != 0) refuse("an integer expression with a stray value");
  switch (expr.op) {
    case IOp::constant:
      if (expr.value > most || expr.value < -most) refuse("an integer constant is too large");
      return;
    case IOp::start:
    case IOp::size:
      check_range(expr.id);
      return;
    case IOp::trip:
      check_range(expr.id);
      if (kernel_.ranges[expr.id].is_core) refuse("a core range has no trips");
      return;
    case IOp::coordinate:
      check_grid(expr.id);
      return;
    case IOp::scalar:
      if (expr.id < 0 || expr.id >= static_cast<Id>(kernel_.scalars.size()) || kernel_.scalars[expr.id].is_float) {
        refuse(fmt::format("there is no i32 scalar {}", expr.id));
      }
      return;
    default:
      break;
  }
  if (expr.id != none) refuse("an integer operation with a stray id");
  for (const IntExpr& arg : expr.args) integer(arg, depth + 1);
  if ((expr.op == IOp::div || expr.op == IOp::mod) && !(expr.args[1].is_constant() && expr.args[1].value > 0)) {
    refuse("division and remainder are by a positive constant");
  }
}

void StructureScope::operand(const BufRef& ref, bool may_transpose) const {
  if (ref.buffer < 0 || ref.buffer >= static_cast<Id>(kernel_.buffers.size()) || !buffer_in_scope_[ref.buffer]) {
    refuse(fmt::format("buffer {} is not in scope", ref.buffer));
  }
  const Buffer& b = kernel_.buffers[ref.buffer];
  if (!ref.box.empty() && ref.box.size() != b.shape.size()) {
    refuse(fmt::format("{} has {} dimensions, the operand {}", b.name, b.shape.size(), ref.box.size()));
  }
  if (ref.transposed && !may_transpose) refuse(fmt::format("{} can't be transposed here", b.name));
  for (const BufDim& dim : ref.box) {
    if (dim.kind == BufDim::Kind::whole) {
      if (dim != BufDim{}) refuse(fmt::format("a whole dimension of {} with a box", b.name));
      continue;
    }
    integer(dim.first);
    integer(dim.size);
    if (dim.range != none) check_range(dim.range);
  }
}

void StructureScope::optional_operand(const BufRef& ref) const {
  if (ref.buffer != none) operand(ref);
  if (ref.buffer == none && !blank(ref)) refuse("an operand without a buffer");
}

void StructureScope::access(const MemRef& ref, Id where) const {
  if (ref.symbol < 0 || ref.symbol >= static_cast<Id>(kernel_.formals.size()))
    refuse("an access names no symbol of the kernel");
  const Symbol& s = kernel_.formals[ref.symbol];
  if (ref.entries.size() != s.view.sizes.size()) {
    refuse(fmt::format("{} has {} dimensions, the access {}", s.name, s.view.sizes.size(), ref.entries.size()));
  }
  for (const Entry& e : ref.entries) {
    if (e.kind == Entry::Kind::affine) {
      integer(e.base);
      integer(e.extent);
      if (e.step < 1 || e.step > limits::elements) refuse(fmt::format("an entry of {} advances by {}", s.name, e.step));
      if (e.range != none) check_range(e.range);
      if (!blank(e.index) || !blank(e.lo) || !blank(e.hi) || e.outside != OnOutside::trap) {
        refuse(fmt::format("an entry of {} is both affine and indexed", s.name));
      }
    } else {
      operand(e.index);
      integer(e.lo);
      integer(e.hi);
      if (!blank(e.base) || e.step != 1 || !blank(e.extent) || e.range != none) {
        refuse(fmt::format("an entry of {} is both affine and indexed", s.name));
      }
    }
  }
  if (where != none &&
      (where < 0 || where >= static_cast<Id>(ref.entries.size()) || ref.entries[where].kind == Entry::Kind::indexed)) {
    refuse(fmt::format("where belongs to an affine entry of {}", s.name));
  }
}

void StructureScope::vector(const VecExpr& expr, int depth, int64_t& nodes) const {
  if (depth > limits::vec_depth || ++nodes > limits::vec_nodes) refuse("an expression is too large");
  for (const VecExpr& arg : expr.args) vector(arg, depth + 1, nodes);
  const TypeOrError result = result_type(expr);
  if (!result.error.empty()) refuse(result.error);
  if (result.type != expr.type) refuse(fmt::format("{} gives {}", rule_of(expr.op).name, register_name(result.type)));

  VecExpr plain;  // what this kind of node doesn't use must be as here
  plain.op = expr.op;
  plain.type = expr.type;
  plain.trap = expr.trap;
  switch (expr.op) {
    case VecOp::operand:
      operand(expr.ref);
      plain.ref = expr.ref;
      if (expr.type != register_of(kernel_.buffers[expr.ref.buffer].format))
        refuse("an operand with the type of another format");
      break;
    case VecOp::constant_f:
      if (expr.type != Reg::f32 || odd_nan(expr.number)) refuse("a malformed f32 constant");
      break;
    case VecOp::constant_i:
      plain.integer = expr.integer;
      if (expr.type != Reg::i32 || expr.integer < std::numeric_limits<int32_t>::min() ||
          expr.integer > std::numeric_limits<int32_t>::max()) {
        refuse("a malformed i32 constant");
      }
      break;
    case VecOp::integer:
      plain.expr = expr.expr;
      integer(expr.expr);
      if (expr.type != Reg::i32) refuse("an integer leaf is i32");
      break;
    case VecOp::scalar:
      plain.id = expr.id;
      if (expr.id < 0 || expr.id >= static_cast<Id>(kernel_.scalars.size()) ||
          expr.type != (kernel_.scalars[expr.id].is_float ? Reg::f32 : Reg::i32)) {
        refuse(fmt::format("there is no scalar {} of its type", expr.id));
      }
      break;
    case VecOp::iota:
      plain.id = expr.id;
      if (expr.id < 0 || expr.id >= limits::buffer_rank || expr.type != Reg::i32) refuse("a malformed iota");
      break;
    case VecOp::philox:
      plain.integer = expr.integer;
      if (expr.integer < 0 || expr.integer > 3) refuse("philox has words 0 to 3");
      break;
    default:
      break;
  }
  const bool number_used = expr.op == VecOp::constant_f;
  if (expr.id != plain.id || expr.integer != plain.integer || expr.ref != plain.ref || expr.expr != plain.expr ||
      (!number_used && std::bit_cast<uint64_t>(expr.number) != 0)) {
    refuse(fmt::format("{} with a stray field", rule_of(expr.op).name));
  }
}

void StructureScope::value(const VecExpr& expr, Reg want, bool to_buffer) const {
  int64_t nodes = 0;
  vector(expr, 1, nodes);
  if (expr.type != want && !(to_buffer && expr.type == Reg::pred)) {
    refuse(fmt::format("{} is wanted, the expression is {}", register_name(want), register_name(expr.type)));
  }
}

Reg StructureScope::register_of_buffer(const BufRef& ref) const {
  return register_of(kernel_.buffers[ref.buffer].format);
}

void StructureScope::step(const Step& step) const {
  if (step.loc != none && (step.loc < 0 || step.loc >= static_cast<Id>(program_.locs.size())))
    refuse("a step names no loc");
  std::visit([&](const auto& s) { check(s); }, step.op);
}

void StructureScope::check(const Load& s) const {
  operand(s.to);
  access(s.from, none);
  if (odd_nan(s.fill)) refuse("a malformed fill value");
  if (s.share != none) check_grid(s.share);
}

void StructureScope::check(const Store& s) const {
  operand(s.from);
  access(s.to, s.where_entry);
  integer(s.where_lo);
  integer(s.where_hi);
  if (s.where_entry != none) {
    operand(s.where_index);
  } else if (!blank(s.where_index) || !blank(s.where_lo) || !blank(s.where_hi)) {
    refuse("a where without its entry");
  }
}

void StructureScope::check(const MatMul& s) const {
  operand(s.acc);
  operand(s.a, true);
  operand(s.b, true);
  if (!s.accumulate && !s.init.empty()) refuse("init belongs to +=");
  for (Id id : s.init) {
    check_range(id);
    if (kernel_.ranges[id].is_core) refuse("init takes loops");
  }
}

void StructureScope::check(const Vector& s) const {
  if (s.to.empty() || s.to.size() != s.value.size())
    refuse("a vector step needs as many values as results, at least one");
  for (size_t i = 0; i < s.to.size(); ++i) {
    operand(s.to[i]);
    value(s.value[i], register_of_buffer(s.to[i]), true);
  }
}

void StructureScope::check(const Reduce& s) const {
  const size_t states = static_cast<size_t>(states_of(s.monoid));
  if (s.state.size() != states || (!s.init.empty() && s.init.size() != states)) {
    refuse(fmt::format("{} has {} state values", monoid_name(s.monoid), states));
  }
  for (size_t i = 0; i < states; ++i) {
    operand(s.state[i]);
    const auto want = state_type(s.monoid, static_cast<int>(i));
    if (want && register_of_buffer(s.state[i]) != *want) {
      refuse(fmt::format("state {} of {} must be {}", i, monoid_name(s.monoid), register_name(*want)));
    }
  }
  const Reg first = register_of_buffer(s.state[0]);
  if (s.trap && !(s.monoid <= Monoid::prod && first == Reg::i32)) refuse("! belongs to sum and prod of i32");
  for (size_t i = 0; i < s.init.size(); ++i) value(s.init[i], init_type(s.monoid, static_cast<int>(i), first), false);
  value(s.value, value_type(s.monoid, first), false);
  if (s.dim < 0 || s.dim >= limits::buffer_rank) refuse(fmt::format("there is no dimension {}", s.dim));
}

void StructureScope::check(const Scan& s) const {
  operand(s.to);
  operand(s.carry);
  const Reg type = register_of_buffer(s.carry);
  if (!can_scan(s.monoid)) refuse(fmt::format("scan knows no {}", monoid_name(s.monoid)));
  if (register_of_buffer(s.to) != type) refuse("the result and the carry of a scan differ in type");
  if (s.trap && !(s.monoid <= Monoid::prod && type == Reg::i32)) refuse("! belongs to sum and prod of i32");
  value(s.value, type, false);
}

void StructureScope::check(const Sort& s) const {
  operand(s.values);
  operand(s.from);
  optional_operand(s.indices);
  optional_operand(s.from_indices);
}

void StructureScope::check(const GatherScatter& s) const {
  operand(s.table);
  operand(s.index);
  operand(s.data);
  integer(s.lo);
  integer(s.hi);
  if (!s.table.box.empty()) refuse("the table of a gather or scatter is a whole buffer");
  if (s.accumulate && !s.scatter) refuse("a gather doesn't add");
}

void StructureScope::check(const Move& s) const {
  operand(s.to);
  operand(s.from, true);
}

void StructureScope::check(const Ring& s) const {
  operand(s.to);
  operand(s.from);
  if (s.kind != Ring::Kind::remap) {
    check_grid(s.grid);
    if (s.by < -limits::cores || s.by > limits::cores || (s.kind == Ring::Kind::gather && s.by != 0))
      refuse("a wrong ring distance");
    if (!s.from_ranges.empty() || !s.to_ranges.empty()) refuse("ranges belong to ring.remap");
    return;
  }
  if (s.grid != none || s.by != 0) refuse("ring.remap goes over all cores");
  if (s.from_ranges.size() != kernel_.buffers[s.from.buffer].shape.size() ||
      s.to_ranges.size() != kernel_.buffers[s.to.buffer].shape.size()) {
    refuse("ring.remap names one range per buffer dimension");
  }
  for (const auto* list : {&s.from_ranges, &s.to_ranges}) {
    for (Id id : *list) {
      if (id == none) continue;
      // A range of this nest in scope, or a core range of an earlier nest: only those have a meaning for all cores.
      const bool known = id >= 0 && id < next_range_;
      if (!known || !(range_in_scope_[id] || (kernel_.ranges[id].is_core && range_nest_[id] < nest_))) {
        refuse(fmt::format("ring.remap can't see range {}", id));
      }
    }
  }
}

void StructureScope::check(const PartialSum& s) const {
  operand(s.acc);
  check_grid(s.grid);
}

void StructureScope::check(const Fence& s) const {
  if (s.grid != none) check_grid(s.grid);
}

}  // namespace spyre::program
