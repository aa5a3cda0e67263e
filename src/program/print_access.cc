// The printed form of integer expressions, operands and accesses: short where the short form means the same tree.
#include <fmt/format.h>

#include "program/printer.h"

namespace spyre::program {

using IOp = IntExpr::Op;

std::string Printer::integer(const IntExpr& expr, int level, bool bare) const {
  auto binary = [&](const char* op, int own, int right) {
    std::string text = integer(expr.args[0], own, bare) + op + integer(expr.args[1], right, bare);
    return own < level ? "(" + text + ")" : text;
  };
  switch (expr.op) {
    case IOp::constant:
      return fmt::format("{}", expr.value);
    case IOp::start:
      return bare ? range_name(expr.id) : range_name(expr.id) + ".start";
    case IOp::size:
      return range_name(expr.id) + ".size";
    case IOp::trip:
      return range_name(expr.id) + ".trip";
    case IOp::coordinate:
      return grid_name(expr.id);
    case IOp::scalar:
      return kernel_->scalars[expr.id].name;
    case IOp::add:
      return binary(" + ", 0, 1);
    case IOp::sub:
      return binary(" - ", 0, 1);
    case IOp::mul:
      return binary("*", 1, 2);
    case IOp::div:
      return binary(" div ", 1, 2);
    case IOp::mod:
      return binary(" mod ", 1, 2);
    case IOp::min:
    case IOp::max:
      return fmt::format("{}({}, {})", expr.op == IOp::min ? "min" : "max", integer(expr.args[0], 0, bare),
                         integer(expr.args[1], 0, bare));
  }
  return {};
}

std::string Printer::bounds(const IntExpr& lo, const IntExpr& hi) const {
  if (lo.op == IOp::start && hi == hi_of(lo.id)) return range_name(lo.id);
  return integer(lo) + ".." + integer(hi);
}

namespace {

/// The HI with which `lo..hi` reads back as exactly this size, if there is one.
bool as_bounds(const IntExpr& lo, const IntExpr& size, IntExpr& hi) {
  if (lo.is_constant() && size.is_constant() && size.value >= 0) {
    hi = IntExpr::of(lo.value + size.value);
    return hi.value <= INT64_MAX / 2;
  }
  if (size.op != IOp::sub || size.args[1] != lo) return false;
  hi = size.args[0];
  return !(lo.is_constant() && hi.is_constant());
}

}  // namespace

std::string Printer::operand(const BufRef& ref) const {
  std::string text = buffer_name(ref.buffer);
  for (size_t d = 0; d < ref.box.size(); ++d) text += (d ? ", " : "[") + position(ref.box[d], ref.buffer);
  if (!ref.box.empty()) text += "]";
  return ref.transposed ? text + "^T" : text;
}

std::string Printer::position(const BufDim& dim, Id buffer) const {
  if (dim.kind == BufDim::Kind::whole) return "_";
  if (dim.range != none) {
    if (dim == position_of(dim.range, *kernel_, std::span(ranges_in_scope_).first(declared_under_[buffer]))) {
      return range_name(dim.range);
    }
  } else {
    if (dim.size.is_constant(1)) return integer(dim.first);
    IntExpr hi;
    if (as_bounds(dim.first, dim.size, hi)) return integer(dim.first) + ".." + integer(hi);
  }
  const std::string text = integer(dim.first) + " ..+ " + integer(dim.size);
  return dim.range == none ? text : text + " of " + range_name(dim.range);
}

std::string Printer::access(const MemRef& ref, const Store* store) const {
  std::string text = kernel_->formals[ref.symbol].name + "[";
  for (size_t e = 0; e < ref.entries.size(); ++e) {
    if (e) text += ", ";
    text += entry(ref.entries[e]);
    if (store && store->where_entry == static_cast<Id>(e)) {
      text += " where " + operand(store->where_index) + " in " + bounds(store->where_lo, store->where_hi);
    }
  }
  return text + "]";
}

std::string Printer::entry(const Entry& e) const {
  if (e.kind == Entry::Kind::indexed) {
    constexpr const char* outside[] = {"trap", "skip", "fill"};
    return fmt::format("{} in {} {}", operand(e.index), bounds(e.lo, e.hi), outside[static_cast<size_t>(e.outside)]);
  }
  const EntryOrError walked = entry_of(e.base, starts_in(e.base), *kernel_);
  if (walked.error.empty() && walked.entry == e) return integer(e.base, 0, true);
  if (e.range == none && e.step == 1) {
    if (e.extent.is_constant(1)) return integer(e.base);
    IntExpr hi;
    if (as_bounds(e.base, e.extent, hi)) return integer(e.base) + ".." + integer(hi);
  }
  std::string text = integer(e.base) + " ..+ " + integer(e.extent);
  if (e.step != 1) text += fmt::format(" by {}", e.step);
  if (e.range != none) text += " of " + range_name(e.range);
  return text;
}

}  // namespace spyre::program
