#include "card/vector_program.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "program/vector_rules.h"

namespace spyre::card {

using program::Reg;
using program::VecExpr;
using program::VecOp;

namespace {

host::F32Unary f32_unary_of(VecOp op) {
  using U = host::F32Unary;
  switch (op) {
    case VecOp::neg:
      return U::neg;
    case VecOp::abs:
      return U::abs;
    case VecOp::square:
      return U::square;
    case VecOp::sign:
      return U::sign;
    case VecOp::rcp:
      return U::rcp;
    case VecOp::floor:
      return U::floor;
    case VecOp::ceil:
      return U::ceil;
    case VecOp::round:
      return U::round;
    case VecOp::trunc:
      return U::trunc;
    case VecOp::exp:
      return U::exp;
    case VecOp::exp2:
      return U::exp2;
    case VecOp::expm1:
      return U::expm1;
    case VecOp::log:
      return U::log;
    case VecOp::log2:
      return U::log2;
    case VecOp::log1p:
      return U::log1p;
    case VecOp::sqrt:
      return U::sqrt;
    case VecOp::rsqrt:
      return U::rsqrt;
    case VecOp::sin:
      return U::sin;
    case VecOp::cos:
      return U::cos;
    case VecOp::tan:
      return U::tan;
    case VecOp::tanh:
      return U::tanh;
    case VecOp::erf:
      return U::erf;
    default:
      fail(Fault::unimplemented, "the card has no f32 operation `{}`", program::rule_of(op).name);
  }
}

host::F32Binary f32_binary_of(VecOp op) {
  using B = host::F32Binary;
  switch (op) {
    case VecOp::add:
      return B::add;
    case VecOp::sub:
      return B::sub;
    case VecOp::mul:
      return B::mul;
    case VecOp::div:
      return B::div;
    case VecOp::min:
      return B::min;
    case VecOp::max:
      return B::max;
    case VecOp::pow:
      return B::pow;
    case VecOp::fmod:
      return B::fmod;
    default:
      fail(Fault::unimplemented, "the card has no f32 operation `{}`", program::rule_of(op).name);
  }
}

host::I32Unary i32_unary_of(VecOp op) {
  using U = host::I32Unary;
  switch (op) {
    case VecOp::neg:
      return U::neg;
    case VecOp::abs:
      return U::abs;
    case VecOp::square:
      return U::square;
    case VecOp::sign:
      return U::sign;
    case VecOp::bit_not:
      return U::bit_not;
    default:
      fail(Fault::unimplemented, "the card has no i32 operation `{}`", program::rule_of(op).name);
  }
}

host::I32Binary i32_binary_of(VecOp op) {
  using B = host::I32Binary;
  switch (op) {
    case VecOp::add:
      return B::add;
    case VecOp::sub:
      return B::sub;
    case VecOp::mul:
      return B::mul;
    case VecOp::div:
      return B::div;
    case VecOp::floor_div:
      return B::floor_div;
    case VecOp::remainder:
      return B::remainder;
    case VecOp::min:
      return B::min;
    case VecOp::max:
      return B::max;
    case VecOp::bit_and:
      return B::bit_and;
    case VecOp::bit_or:
      return B::bit_or;
    case VecOp::bit_xor:
      return B::bit_xor;
    case VecOp::shl:
      return B::shl;
    case VecOp::shr:
      return B::shr;
    default:
      fail(Fault::unimplemented, "the card has no i32 operation `{}`", program::rule_of(op).name);
  }
}

host::Comparison comparison_of(VecOp op) {
  using C = host::Comparison;
  switch (op) {
    case VecOp::lt:
      return C::lt;
    case VecOp::le:
      return C::le;
    case VecOp::gt:
      return C::gt;
    case VecOp::ge:
      return C::ge;
    case VecOp::eq:
      return C::eq;
    default:
      return C::ne;
  }
}

}  // namespace

VectorProgram::VectorProgram(const std::vector<const VecExpr*>& roots, int rank, const StepContext& context,
                             bool round_dl16)
    : rank_(rank) {
  if (rank < 1 || rank > max_rank) fail(Fault::program, "a vector expression over {} dimensions", rank);
  for (const VecExpr* e : roots) roots_.push_back(add(*e, context));
  if (round_dl16) {
    Node n;
    n.expr = roots[0];
    n.kind = Kind::f1;
    n.op = static_cast<int>(host::F32Unary::round_dl16);
    n.cls = nodes_[roots_[0]].cls;
    n.repeats = nodes_[roots_[0]].repeats;
    n.args[n.count++] = roots_[0];
    roots_[0] = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(n));
  }
  for (const Operand& o : operands_) {
    read_once_.push_back(context.uses[o.buffer()] == 2);
    const int shift = rank_ - o.info().rank;
    for (int d = 0; d < o.info().rank; ++d)
      if (!o.single(d)) sized_[d + shift] = true;
  }
  for (int r : roots_) nodes_[r].repeats = false;  // a strip's result may have a place of its own
  make_chains();
  allocate();
}

int VectorProgram::add(const VecExpr& e, const StepContext& context) {
  Node n;
  n.expr = &e;
  n.type = e.type;
  for (const auto& a : e.args) {
    if (n.count == 3) fail(Fault::program, "operation `{}` has more than three arguments", program::rule_of(e.op).name);
    n.args[n.count++] = add(a, context);
  }
  const bool real = n.count > 0 && nodes_[n.args[0]].type == Reg::f32;
  using K = program::VecRule::Kind;
  switch (e.op) {
    case VecOp::operand: {
      n.kind = Kind::load;
      Operand operand(e.ref, context.buffers, context.vars);
      if (operand.info().rank > rank_)
        fail(Fault::program, "operand {} has {} dimensions in a box of {}", operand.info().source->name,
             operand.info().rank, rank_);
      if (e.type == Reg::pred) fail(Fault::program, "operand {} as a predicate", operand.info().source->name);
      bool all = true, but_last = true;
      for (int d = 0; d < operand.info().rank; ++d) {
        const bool last = d + 1 == operand.info().rank;
        all = all && operand.single(d);
        but_last = but_last && (!last || operand.single(d));
      }
      n.cls = all ? Class::once : but_last ? Class::row : Class::lane;
      n.repeats = n.cls == Class::lane && rank_ > 1;
      for (int d = 0; d + 1 < operand.info().rank; ++d) n.repeats = n.repeats && operand.single(d);
      n.source = static_cast<int>(operands_.size());
      operands_.push_back(std::move(operand));
      break;
    }
    case VecOp::constant_f:
    case VecOp::constant_i:
      n.kind = Kind::constant;
      break;
    case VecOp::integer:
      n.kind = Kind::integer;
      n.value = Expr(e.expr, context.vars);
      break;
    case VecOp::scalar:
      n.kind = Kind::scalar;
      if (e.id < 0 || e.id >= context.vars.scalars) fail(Fault::program, "a vector expression names scalar {}", e.id);
      break;
    case VecOp::iota:
      n.kind = Kind::iota;
      n.dim = e.id;
      if (e.id < 0 || e.id >= rank_) fail(Fault::program, "iota{} in a box of {} dimensions", e.id, rank_);
      n.cls = e.id + 1 == rank_ ? Class::lane : Class::row;
      n.repeats = n.cls == Class::lane && rank_ > 1;
      break;
    case VecOp::fma:
      n.kind = Kind::fma;
      break;
    case VecOp::is_nan:
      n.kind = Kind::is_nan;
      break;
    case VecOp::select:
      n.kind = Kind::select;
      break;
    case VecOp::logical_and:
      n.kind = Kind::i2, n.op = static_cast<int>(host::I32Binary::bit_and);
      break;
    case VecOp::logical_or:
      n.kind = Kind::i2, n.op = static_cast<int>(host::I32Binary::bit_or);
      break;
    case VecOp::logical_not:
      n.kind = Kind::i1, n.op = static_cast<int>(host::I32Unary::bit_not);
      break;
    case VecOp::cast: {
      const Reg from = nodes_[n.args[0]].type;
      if (from == e.type) return n.args[0];
      if (e.type == Reg::pred) fail(Fault::program, "a cast to a predicate");
      n.kind = e.type == Reg::f32 ? (from == Reg::i32 ? Kind::cast_if : Kind::cast_mf)
                                  : (from == Reg::f32 ? Kind::cast_fi : Kind::cast_mi);
      break;
    }
    case VecOp::philox:
      n.kind = Kind::philox;
      if (e.integer < 0 || e.integer > 3) fail(Fault::program, "philox makes words 0 to 3, not {}", e.integer);
      break;
    default: {
      const auto& rule = program::rule_of(e.op);
      if (n.count != rule.arguments) fail(Fault::program, "operation `{}` has {} arguments", rule.name, n.count);
      if (rule.kind == K::compare) {
        n.kind = real ? Kind::fcmp : Kind::icmp;
        n.op = static_cast<int>(comparison_of(e.op));
      } else if (real) {
        n.kind = n.count == 1 ? Kind::f1 : Kind::f2;
        n.op = n.count == 1 ? static_cast<int>(f32_unary_of(e.op)) : static_cast<int>(f32_binary_of(e.op));
      } else {
        n.kind = n.count == 1 ? Kind::i1 : Kind::i2;
        n.op = n.count == 1 ? static_cast<int>(i32_unary_of(e.op)) : static_cast<int>(i32_binary_of(e.op));
      }
    }
  }
  for (int a = 0; a < n.count; ++a) n.cls = std::max(n.cls, nodes_[n.args[a]].cls);
  if (n.count > 0 && n.cls == Class::lane) {
    const auto same = [&](int arg) { return nodes_[arg].cls == Class::once || nodes_[arg].repeats; };
    n.repeats = std::all_of(n.args, n.args + n.count, same);
  }
  // The same value twice (macros repeat their arguments) is computed once.
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& o = nodes_[i];
    const VecExpr& x = *o.expr;
    if (o.kind != n.kind || o.op != n.op || o.type != n.type || !std::equal(o.args, o.args + 3, n.args)) continue;
    if (x.op == e.op && x.trap == e.trap && x.number == e.number && std::signbit(x.number) == std::signbit(e.number) &&
        x.integer == e.integer && x.id == e.id && x.ref == e.ref && x.expr == e.expr) {
      if (n.source >= 0) operands_.pop_back();
      return static_cast<int>(i);
    }
  }
  nodes_.push_back(std::move(n));
  return static_cast<int>(nodes_.size()) - 1;
}

void VectorProgram::allocate() {
  const int n = static_cast<int>(nodes_.size());
  std::vector<int> last(n, -1);
  for (int i = 0; i < n; ++i)
    if (!nodes_[i].absorbed) for_each_argument(nodes_[i], [&](int arg) { last[arg] = i; });
  for (int r : roots_) last[r] = n;
  std::vector<int> free;
  for (int i = 0; i < n; ++i) {
    Node& node = nodes_[i];
    if (node.absorbed) continue;
    for_each_argument(node, [&](int a) {
      Node& arg = nodes_[a];
      if (arg.cls == Class::row && node.cls == Class::lane) {
        spreads_ = spreads_ || node.kind != Kind::chain;  // chains spread values over short rows only
        if (arg.spread_reg < 0) arg.spread_reg = registers_++;
      }
      if (arg.cls != Class::lane || arg.repeats || node.cls != Class::lane || last[a] != i) return;
      last[a] = -2;  // an argument used twice is freed once
      free.push_back(arg.reg);
    });
    if (node.cls == Class::lane && !node.repeats && !free.empty()) {
      node.reg = free.back();
      free.pop_back();
    } else {
      node.reg = registers_++;
    }
  }
  int64_t held = 0;
  for (const Node& node : nodes_) held += node.cls == Class::lane && !node.absorbed && node.kind != Kind::load;
  if (held <= 2) strip_lanes_ = 2048;
}

}  // namespace spyre::card
