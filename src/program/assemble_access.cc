// The text form of integer expressions, buffer operands and memory accesses.
#include <algorithm>
#include <limits>

#include "program/assembler.h"
#include "program/limits.h"

namespace spyre::program {

using IOp = IntExpr::Op;

// ---------------------------------------------------------------------------------------------------- integer
// expressions

IntExpr Assembler::int_expr() {
  bare_ranges_.clear();
  return int_sum().expr;
}

int64_t Assembler::int_constant(std::string_view what, int64_t lo, int64_t hi) {
  const Token at = peek();
  const IntExpr expr = int_expr();
  const auto value = starts_in(expr).empty() ? constant_value(expr) : std::nullopt;
  if (!value) fail_at(at, "{} must be a constant", what);
  if (*value < lo || *value > hi) fail_at(at, "{} must lie in {}..{}, not {}", what, lo, hi, *value);
  return *value;
}

Assembler::Int Assembler::int_binary(IOp op, Int a, Int b, const Token& at) {
  const int depth = 1 + std::max(a.depth, b.depth);
  if (depth > limits::int_depth) fail_at(at, "an integer expression has at most {} levels", limits::int_depth);
  if ((op == IOp::div || op == IOp::mod) && !(b.expr.is_constant() && b.expr.value > 0)) {
    fail_at(at, "division and remainder are by a positive constant");
  }
  return {IntExpr::binary(op, std::move(a.expr), std::move(b.expr)), depth};
}

Assembler::Int Assembler::int_sum() {
  const Deeper deeper(*this, peek());
  Int left = int_product();
  while (peek().is("+") || peek().is("-")) {
    const Token op = next();
    left = int_binary(op.is("+") ? IOp::add : IOp::sub, std::move(left), int_product(), op);
  }
  return left;
}

Assembler::Int Assembler::int_product() {
  Int left = int_factor();
  for (;;) {
    const Token op = peek();
    if (op.is("*")) {
      next();
      left = int_binary(IOp::mul, std::move(left), int_factor(), op);
    } else if (op.is("div") || op.is("/")) {
      next();
      left = int_binary(IOp::div, std::move(left), int_factor(), op);
    } else if (op.is("mod")) {
      next();
      left = int_binary(IOp::mod, std::move(left), int_factor(), op);
    } else {
      return left;
    }
  }
}

Assembler::Int Assembler::int_factor() {
  const Token at = peek();
  if (at.is("-") && peek(1).kind != Token::Kind::integer) {
    const Deeper deeper(*this, at);
    next();
    return int_binary(IOp::sub, {IntExpr::of(0), 1}, int_factor(), at);
  }
  if (at.kind == Token::Kind::integer || at.is("-")) {
    constexpr int64_t most = std::numeric_limits<int64_t>::max() / 2;
    return {IntExpr::of(integer("a constant", -most, most)), 1};
  }
  if (accept("(")) {
    Int inner = int_sum();
    expect(")");
    return inner;
  }
  if (at.kind != Token::Kind::name) fail_at(at, "expected an integer expression, found {}", describe(at));
  if ((at.is("min") || at.is("max")) && peek(1).is("(")) {
    next(), next();
    Int left = int_sum();
    if (!peek().is(",")) fail_at(peek(), "{} takes two or more arguments, found {}", at.text, describe(peek()));
    while (accept(",")) left = int_binary(at.is("min") ? IOp::min : IOp::max, std::move(left), int_sum(), at);
    expect(")");
    return left;
  }
  return int_name();
}

Assembler::Int Assembler::int_name() {
  const Token token = next();
  const Name* name = lookup(token.text);
  if (!name) fail_at(token, "unknown name {}: expected a range, a grid coordinate or an i32 scalar", describe(token));
  switch (name->kind) {
    case Name::Kind::scalar:
      if (kernel_->scalars[name->id].is_float) fail_at(token, "scalar {} is f32: only i32 scalars steer", token.text);
      return {IntExpr::leaf(IOp::scalar, name->id), 1};
    case Name::Kind::grid:
      return {IntExpr::leaf(IOp::coordinate, name->id), 1};
    case Name::Kind::range:
      break;
    case Name::Kind::buffer:
      fail_at(token, "{} is a buffer: data selects lanes (predicates) or addresses (ix in R), it does not steer",
              token.text);
    case Name::Kind::formal:
      fail_at(token, "{} is a symbol, expected a range, a grid coordinate or an i32 scalar", token.text);
  }
  if (!accept(".")) {
    if (std::find(bare_ranges_.begin(), bare_ranges_.end(), name->id) == bare_ranges_.end())
      bare_ranges_.push_back(name->id);
    return {IntExpr::leaf(IOp::start, name->id), 1};
  }
  const Token part = next();
  if (part.is("start")) return {IntExpr::leaf(IOp::start, name->id), 1};
  if (part.is("size")) return {IntExpr::leaf(IOp::size, name->id), 1};
  if (part.is("end")) return {hi_of(name->id), 2};
  if (part.is("trip")) {
    if (kernel_->ranges[name->id].is_core) fail_at(token, "{} is a core range and has no trips", token.text);
    return {IntExpr::leaf(IOp::trip, name->id), 1};
  }
  fail_at(part, "expected start, size, end or trip of range {}, found {}", token.text, describe(part));
}

void Assembler::int_bounds(IntExpr& lo, IntExpr& hi) {
  const Name* name = peek().kind == Token::Kind::name ? lookup(peek().text) : nullptr;
  const bool alone = !(peek(1).is(".") || peek(1).is("..") || peek(1).is("+") || peek(1).is("-") || peek(1).is("*") ||
                       peek(1).is("/") || peek(1).is("div") || peek(1).is("mod"));
  if (name && name->kind == Name::Kind::range && alone) {
    next();
    lo = lo_of(name->id);
    hi = hi_of(name->id);
    return;
  }
  lo = int_expr();
  expect("..");
  hi = int_expr();
}

// ----------------------------------------------------------------------------------------------------------------
// operands

BufRef Assembler::operand() {
  const Token token = next();
  const Name* name = token.kind == Token::Kind::name ? lookup(token.text) : nullptr;
  if (!name || name->kind != Name::Kind::buffer) fail_at(token, "expected a buffer, found {}", describe(token));
  BufRef ref;
  ref.buffer = name->id;
  if (accept("[")) {
    do {
      ref.box.push_back(position(ref.buffer));
    } while (accept(","));
    expect("]");
    const size_t rank = kernel_->buffers[ref.buffer].shape.size();
    if (ref.box.size() != rank) fail_at(token, "{} has {} dimensions, not {}", token.text, rank, ref.box.size());
  }
  if (accept("^")) {
    expect("T");
    ref.transposed = true;
  }
  return ref;
}

BufDim Assembler::position(Id buffer) {
  BufDim dim;
  if (accept("_")) return dim;
  const Token at = peek();
  const Name* name = at.kind == Token::Kind::name ? lookup(at.text) : nullptr;
  if (name && name->kind == Name::Kind::range && (peek(1).is(",") || peek(1).is("]"))) {
    next();
    return position_of(name->id, *kernel_, std::span(ranges_in_scope_).first(declared_under_[buffer]));
  }
  dim.kind = BufDim::Kind::box;
  dim.first = int_expr();
  if (accept("..")) {
    const IntExpr hi = int_expr();
    if (dim.first.is_constant() && hi.is_constant()) {
      if (hi.value < dim.first.value) fail_at(at, "a box ends before it starts");
      dim.size = IntExpr::of(hi.value - dim.first.value);
    } else {
      dim.size = int_binary(IOp::sub, {hi, depth_of(hi)}, {dim.first, depth_of(dim.first)}, at).expr;
    }
  } else if (accept("..+")) {
    dim.size = int_expr();
    if (accept("of")) dim.range = expect_range("the range that makes the size");
  } else {
    dim.size = IntExpr::of(1);
  }
  return dim;
}

// --------------------------------------------------------------------------------------------------------- memory
// accesses

OnOutside Assembler::outside() {
  if (accept("skip")) return OnOutside::skip;
  if (accept("fill")) return OnOutside::fill;
  accept("trap");
  return OnOutside::trap;
}

MemRef Assembler::access(Store* store) {
  const Token token = next();
  const Name* name = token.kind == Token::Kind::name ? lookup(token.text) : nullptr;
  if (!name || name->kind != Name::Kind::formal)
    fail_at(token, "expected a symbol of the kernel, found {}", describe(token));
  MemRef ref;
  ref.symbol = name->id;
  if (accept("[")) {
    if (!peek().is("]")) {
      do {
        ref.entries.push_back(entry());
        if (store && accept("where")) {
          if (store->where_entry != none) fail_at(token, "a store has one 'where'");
          if (ref.entries.back().kind == Entry::Kind::indexed)
            fail_at(token, "'where' belongs to an entry that is a range");
          store->where_entry = static_cast<Id>(ref.entries.size() - 1);
          store->where_index = operand();
          expect("in");
          int_bounds(store->where_lo, store->where_hi);
        }
      } while (accept(","));
    }
    expect("]");
  }
  const size_t rank = kernel_->formals[ref.symbol].view.sizes.size();
  if (ref.entries.size() != rank) {
    fail_at(token, "{} has {} dimensions, the access names {}", token.text, rank, ref.entries.size());
  }
  return ref;
}

Entry Assembler::entry() {
  const Token at = peek();
  const Name* name = at.kind == Token::Kind::name ? lookup(at.text) : nullptr;
  Entry entry;
  if (name && name->kind == Name::Kind::buffer) {
    entry.kind = Entry::Kind::indexed;
    entry.index = operand();
    if (entry.index.transposed) fail_at(at, "an index can't be transposed");
    expect("in");
    int_bounds(entry.lo, entry.hi);
    entry.outside = outside();
    return entry;
  }
  entry.base = int_expr();
  if (accept("..")) {
    const IntExpr hi = int_expr();
    if (entry.base.is_constant() && hi.is_constant()) {
      if (hi.value < entry.base.value) fail_at(at, "an entry ends before it starts");
      entry.extent = IntExpr::of(hi.value - entry.base.value);
    } else {
      entry.extent = int_binary(IOp::sub, {hi, depth_of(hi)}, {entry.base, depth_of(entry.base)}, at).expr;
    }
    return entry;
  }
  if (accept("..+")) {
    entry.extent = int_expr();
    if (accept("by")) entry.step = int_constant("the step", 1, limits::elements);
    if (accept("of")) entry.range = expect_range("the range that makes the extent");
    return entry;
  }
  EntryOrError result = entry_of(std::move(entry.base), bare_ranges_, *kernel_);
  if (!result.error.empty()) fail_at(at, "the entry {}", result.error);
  return std::move(result.entry);
}

}  // namespace spyre::program
