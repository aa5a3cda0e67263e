// The printed form of steps and SFP expressions.
#include <fmt/format.h>
#include <cmath>

#include "program/printer.h"
#include "program/symbol_text.h"
#include "program/vector_rules.h"

namespace spyre::program {

std::string Printer::step(const Step& step) const {
  return std::visit([&](const auto& s) { return text(s); }, step.op) + loc_suffix(step.loc);
}

std::string Printer::text(const Load& s) const {
  std::string text = "ld " + operand(s.to) + " = " + access(s.from, nullptr);
  if (s.fill != 0 || std::signbit(s.fill)) text += " fill " + number_text(s.fill);
  if (s.share != none) text += " share(" + grid_name(s.share) + ")";
  return text;
}

std::string Printer::text(const Store& s) const {
  return "st " + access(s.to, &s) + " = " + operand(s.from) + (s.ordered ? " ordered" : "");
}

std::string Printer::text(const MatMul& s) const {
  std::string text = (s.on_pt ? "pt " : "sfp.mm ") + operand(s.acc) + (s.accumulate ? " += " : " = ") + operand(s.a) +
                     " * " + operand(s.b);
  for (size_t i = 0; i < s.init.size(); ++i) text += (i ? ", " : " init(") + range_name(s.init[i]);
  return s.init.empty() ? text : text + ")";
}

std::string Printer::text(const Vector& s) const {
  std::string to, values;
  for (const BufRef& ref : s.to) to += (to.empty() ? "" : ", ") + operand(ref);
  for (const VecExpr& value : s.value) values += (values.empty() ? "" : ", ") + vector(value);
  return "sfp " + to + " = " + values;
}

std::string Printer::text(const Reduce& s) const {
  std::string text;
  for (const BufRef& ref : s.state) text += (text.empty() ? "sfp.red " : ", ") + operand(ref);
  text += " = " + std::string(monoid_name(s.monoid)) + (s.trap ? "!(" : "(");
  for (const VecExpr& init : s.init) text += vector(init) + ", ";
  return text + vector(s.value) + fmt::format(" over {})", s.dim);
}

std::string Printer::text(const Scan& s) const {
  return fmt::format("sfp.scan {}, {} = {}{}({}, {})", operand(s.to), operand(s.carry), monoid_name(s.monoid),
                     s.trap ? "!" : "", vector(s.value), operand(s.carry));
}

std::string Printer::text(const Sort& s) const {
  constexpr const char* kinds[] = {"sort", "merge", "topk"};
  std::string text = fmt::format("sfp.{} {}", kinds[static_cast<size_t>(s.kind)], operand(s.values));
  if (s.indices.buffer != none) text += ", " + operand(s.indices);
  text += " = " + operand(s.from);
  if (s.from_indices.buffer != none) text += ", " + operand(s.from_indices);
  return s.descending ? text + " descending" : text;
}

std::string Printer::text(const GatherScatter& s) const {
  constexpr const char* outside[] = {"trap", "skip", "fill"};
  const std::string table = fmt::format("{}[{} in {} {}]", operand(s.table), operand(s.index), bounds(s.lo, s.hi),
                                        outside[static_cast<size_t>(s.outside)]);
  if (!s.scatter) return "sfp.gather " + operand(s.data) + " = " + table;
  return "sfp.scatter " + table + (s.accumulate ? " += " : " = ") + operand(s.data);
}

std::string Printer::text(const Move& s) const { return "mv " + operand(s.to) + " = " + operand(s.from); }

std::string Printer::text(const Ring& s) const {
  const std::string operands = operand(s.to) + " = " + operand(s.from);
  if (s.kind == Ring::Kind::shift) return fmt::format("ring.shift {} over {} by {}", operands, grid_name(s.grid), s.by);
  if (s.kind == Ring::Kind::gather) return fmt::format("ring.gather {} over {}", operands, grid_name(s.grid));
  auto list = [&](const std::vector<Id>& ids) {
    std::string text;
    for (Id id : ids) {
      if (!text.empty()) text += ", ";
      if (id == none) {
        text += "_";
      } else {
        text += range_name(id);
        if (range_nest_[id] != nest_) text += fmt::format("@{}", range_nest_[id]);
      }
    }
    return text;
  };
  return fmt::format("ring.remap {} from({}) to({})", operands, list(s.from_ranges), list(s.to_ranges));
}

std::string Printer::text(const PartialSum& s) const {
  return "psum " + operand(s.acc) + " over " + grid_name(s.grid) + (s.to_all ? " to all" : " to 0");
}

std::string Printer::text(const Fence& s) const {
  return s.grid == none ? "fence" : "barrier over " + grid_name(s.grid);
}

namespace {

/// Binding strength of operators, as the grammar nests them: ?: 0, or 1, xor 2, and 3, not 4, comparisons 5, shifts 6,
/// sums 7, products 8, unary minus 9, the rest 10.
int strength(VecOp op) {
  switch (op) {
    case VecOp::select:
      return 0;
    case VecOp::logical_or:
    case VecOp::bit_or:
      return 1;
    case VecOp::bit_xor:
      return 2;
    case VecOp::logical_and:
    case VecOp::bit_and:
      return 3;
    case VecOp::logical_not:
    case VecOp::bit_not:
      return 4;
    case VecOp::lt:
    case VecOp::le:
    case VecOp::gt:
    case VecOp::ge:
    case VecOp::eq:
    case VecOp::ne:
      return 5;
    case VecOp::shl:
    case VecOp::shr:
      return 6;
    case VecOp::add:
    case VecOp::sub:
      return 7;
    case VecOp::mul:
    case VecOp::div:
    case VecOp::floor_div:
    case VecOp::remainder:
      return 8;
    case VecOp::neg:
      return 9;
    default:
      return 10;
  }
}

}  // namespace

std::string Printer::vector(const VecExpr& expr, int level) const {
  const VecRule& rule = rule_of(expr.op);
  const char* mark = expr.trap ? "!" : "";
  switch (expr.op) {
    case VecOp::operand:
      return operand(expr.ref);
    case VecOp::constant_f:
      return number_text(expr.number);
    case VecOp::constant_i:
      return fmt::format("{}", expr.integer);
    case VecOp::integer: {
      const IntExpr::Op op = expr.expr.op;
      const bool plain = op == IntExpr::Op::start || op == IntExpr::Op::size || op == IntExpr::Op::trip ||
                         op == IntExpr::Op::coordinate;
      return plain ? integer(expr.expr) : "int(" + integer(expr.expr) + ")";
    }
    case VecOp::scalar:
      return kernel_->scalars[expr.id].name;
    case VecOp::iota:
      return fmt::format("iota{}", expr.id);
    case VecOp::cast:
      return fmt::format("{}{}({})", expr.trap ? "cast" : register_name(expr.type), mark, vector(expr.args[0]));
    case VecOp::philox:
      return fmt::format("philox({}, {}, {}, {})", vector(expr.args[0]), vector(expr.args[1]), vector(expr.args[2]),
                         expr.integer);
    default:
      break;
  }
  std::string text;
  const int own = strength(expr.op);
  if (!rule.is_operator) {
    for (const VecExpr& arg : expr.args) text += (text.empty() ? "" : ", ") + vector(arg);
    return fmt::format("{}{}({})", rule.name, mark, text);
  }
  if (expr.op == VecOp::select) {
    text = vector(expr.args[0], 1) + " ? " + vector(expr.args[1]) + " : " + vector(expr.args[2]);
  } else if (expr.op == VecOp::neg) {
    // A constant behind a minus would read back as one negative constant.
    const VecOp inner = expr.args[0].op;
    const bool constant = inner == VecOp::constant_f || inner == VecOp::constant_i;
    const std::string arg = vector(expr.args[0], own);
    text = fmt::format("-{}{}", mark, constant ? "(" + arg + ")" : arg);
  } else if (own == 4) {
    text = "not " + vector(expr.args[0], own);
  } else {
    const int left = own == 5 ? 6 : own;  // comparisons don't chain
    text = fmt::format("{} {}{} {}", vector(expr.args[0], left), rule.name, mark, vector(expr.args[1], own + 1));
  }
  return own < level ? "(" + text + ")" : text;
}

}  // namespace spyre::program
