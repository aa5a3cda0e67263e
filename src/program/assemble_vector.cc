// The text form of SFP expressions: precedence, types, literals that adapt, macros.
#include <algorithm>
#include <limits>

#include "program/assembler.h"
#include "program/limits.h"
#include "program/vector_rules.h"

namespace spyre::program {

// ------------------------------------------------------------------------------------------------------------------
// types

void Assembler::to_f32(VecExpr& expr) {
  expr.type = Reg::f32;
  if (expr.op == VecOp::constant_i) {
    expr.op = VecOp::constant_f;
    expr.number = static_cast<double>(expr.integer);
    expr.integer = 0;
  }
  for (size_t i = expr.op == VecOp::select ? 1 : 0; i < expr.args.size(); ++i) to_f32(expr.args[i]);
}

void Assembler::unify(Vec& a, Vec& b) {
  if (a.expr.type == Reg::f32 && b.adaptable) {
    to_f32(b.expr);
    b.adaptable = false;
  } else if (b.expr.type == Reg::f32 && a.adaptable) {
    to_f32(a.expr);
    a.adaptable = false;
  }
}

VecExpr Assembler::value_of(Reg want, bool to_buffer) {
  Vec v = vec();
  if (want == Reg::f32 && v.adaptable) to_f32(v.expr);
  if (v.expr.type != want && !(to_buffer && v.expr.type == Reg::pred)) {
    if (want == Reg::pred)
      fail_at(v.at, "a predicate is wanted here, this is {}: compare it, as in x != 0", register_name(v.expr.type));
    fail_at(v.at, "{} is wanted here, this is {}: cast with {}(x)", register_name(want), register_name(v.expr.type),
            register_name(want));
  }
  return std::move(v.expr);
}

Assembler::Vec Assembler::make(VecOp op, std::vector<Vec> args, const Token& at, bool trap, Reg type) {
  Vec v;
  v.at = at;
  const VecRule& rule = rule_of(op);
  const bool literal = std::all_of(args.begin(), args.end(), [](const Vec& a) { return a.adaptable; });
  if (rule.kind == VecRule::Kind::floats) {
    for (Vec& a : args) {
      if (a.adaptable) to_f32(a.expr);
    }
  }
  if ((rule.kind == VecRule::Kind::arithmetic || rule.kind == VecRule::Kind::compare) && args.size() == 2)
    unify(args[0], args[1]);
  if (rule.kind == VecRule::Kind::select) unify(args[1], args[2]);
  if (rule.kind == VecRule::Kind::arithmetic) v.adaptable = literal && !trap;
  if (rule.kind == VecRule::Kind::select) v.adaptable = args[1].adaptable && args[2].adaptable;
  v.expr.op = op;
  v.expr.trap = trap;
  v.expr.type = type;
  for (Vec& a : args) {
    v.depth = std::max(v.depth, a.depth + 1);
    v.nodes += a.nodes;
    v.expr.args.push_back(std::move(a.expr));
  }
  if (v.depth > limits::vec_depth) fail_at(at, "an expression has at most {} levels", limits::vec_depth);
  if (v.nodes > limits::vec_nodes) fail_at(at, "an expression has at most {} operations", limits::vec_nodes);
  const TypeOrError result = result_type(v.expr);
  if (!result.error.empty()) fail_at(at, "{}", result.error);
  v.expr.type = result.type;
  return v;
}

Assembler::Vec Assembler::leaf(VecExpr expr, const Token& at) const {
  Vec v;
  v.expr = std::move(expr);
  v.at = at;
  return v;
}

Assembler::Vec Assembler::constant(double value, const Token& at) const {
  VecExpr e;
  e.number = value;
  return leaf(std::move(e), at);
}

// -------------------------------------------------------------------------------------------------------------
// precedence

Assembler::Vec Assembler::vec() {
  const Token at = peek();
  const Deeper deeper(*this, at);
  Vec condition = vec_or();
  if (!accept("?")) return condition;
  std::vector<Vec> args;
  args.push_back(std::move(condition));
  args.push_back(vec());
  expect(":");
  args.push_back(vec());
  return make(VecOp::select, std::move(args), at);
}

namespace {

/// `and`, `or`, `not` are logical on predicates and bitwise on i32.
VecOp logical_or_bits(Reg type, VecOp logical, VecOp bits) { return type == Reg::pred ? logical : bits; }

}  // namespace

Assembler::Vec Assembler::vec_or() {
  Vec left = vec_xor();
  while (peek().is("or")) {
    const Token at = next();
    const VecOp op = logical_or_bits(left.expr.type, VecOp::logical_or, VecOp::bit_or);
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_xor());
    left = make(op, std::move(args), at);
  }
  return left;
}

Assembler::Vec Assembler::vec_xor() {
  Vec left = vec_and();
  while (peek().is("xor")) {
    const Token at = next();
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_and());
    left = make(VecOp::bit_xor, std::move(args), at);
  }
  return left;
}

Assembler::Vec Assembler::vec_and() {
  Vec left = vec_not();
  while (peek().is("and")) {
    const Token at = next();
    const VecOp op = logical_or_bits(left.expr.type, VecOp::logical_and, VecOp::bit_and);
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_not());
    left = make(op, std::move(args), at);
  }
  return left;
}

Assembler::Vec Assembler::vec_not() {
  if (!peek().is("not")) return vec_compare();
  const Token at = next();
  const Deeper deeper(*this, at);
  std::vector<Vec> args;
  args.push_back(vec_not());
  const VecOp op = logical_or_bits(args[0].expr.type, VecOp::logical_not, VecOp::bit_not);
  return make(op, std::move(args), at);
}

Assembler::Vec Assembler::vec_compare() {
  Vec left = vec_shift();
  constexpr std::pair<std::string_view, VecOp> ops[] = {{"<", VecOp::lt},  {"<=", VecOp::le}, {">", VecOp::gt},
                                                        {">=", VecOp::ge}, {"==", VecOp::eq}, {"!=", VecOp::ne}};
  for (const auto& [text, op] : ops) {
    if (!peek().is(text)) continue;
    const Token at = next();
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_shift());
    return make(op, std::move(args), at);
  }
  return left;
}

Assembler::Vec Assembler::vec_shift() {
  Vec left = vec_sum();
  while (peek().is("shl") || peek().is("shr")) {
    const Token at = next();
    const bool trap = accept("!");
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_sum());
    left = make(at.is("shl") ? VecOp::shl : VecOp::shr, std::move(args), at, trap);
  }
  return left;
}

Assembler::Vec Assembler::vec_sum() {
  Vec left = vec_product();
  while (peek().is("+") || peek().is("-")) {
    const Token at = next();
    const bool trap = accept("!");
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_product());
    left = make(at.is("+") ? VecOp::add : VecOp::sub, std::move(args), at, trap);
  }
  return left;
}

Assembler::Vec Assembler::vec_product() {
  Vec left = vec_unary();
  for (;;) {
    const Token at = peek();
    VecOp op;
    if (at.is("*")) {
      op = VecOp::mul;
    } else if (at.is("/")) {
      op = VecOp::div;
    } else if (at.is("div")) {
      op = VecOp::floor_div;
    } else if (at.is("mod")) {
      op = VecOp::remainder;
    } else {
      return left;
    }
    next();
    const bool trap = accept("!");
    std::vector<Vec> args;
    args.push_back(std::move(left));
    args.push_back(vec_unary());
    left = make(op, std::move(args), at, trap);
  }
}

Assembler::Vec Assembler::vec_unary() {
  const Token at = peek();
  if (!at.is("-")) return vec_primary();
  const Token after = peek(1);
  next();
  if (after.kind == Token::Kind::integer || after.kind == Token::Kind::number || after.is("inf")) {
    Vec v;
    if (after.kind == Token::Kind::integer && after.integer <= 1ull << 31) {
      next();
      VecExpr e;
      e.op = VecOp::constant_i;
      e.type = Reg::i32;
      e.integer = -static_cast<int64_t>(after.integer);
      v = leaf(std::move(e), at);
      v.adaptable = true;
      return v;
    }
    v = vec_primary();
    v.expr.number = -v.expr.number;
    return v;
  }
  const Deeper deeper(*this, at);
  const bool trap = accept("!");
  std::vector<Vec> args;
  args.push_back(vec_unary());
  return make(VecOp::neg, std::move(args), at, trap);
}

// ----------------------------------------------------------------------------------------------------------------
// primary

Assembler::Vec Assembler::vec_primary() {
  const Token at = peek();
  if (accept("(")) {
    Vec v = vec();
    expect(")");
    return v;
  }
  if (at.kind == Token::Kind::number) {
    next();
    return constant(at.number, at);
  }
  if (at.kind == Token::Kind::integer) {
    next();
    if (at.integer > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) {
      fail_at(at, "{} is outside i32; write {}.0 for an f32 constant", at.text, at.text);
    }
    VecExpr e;
    e.op = VecOp::constant_i;
    e.type = Reg::i32;
    e.integer = static_cast<int64_t>(at.integer);
    Vec v = leaf(std::move(e), at);
    v.adaptable = true;
    return v;
  }
  if (at.is("inf") || at.is("nan")) {
    next();
    return constant(at.is("inf") ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN(),
                    at);
  }
  if (at.kind != Token::Kind::name) fail_at(at, "expected an expression, found {}", describe(at));
  if (at.text.size() == 5 && at.text.starts_with("iota") && at.text[4] >= '0' &&
      at.text[4] < '0' + limits::buffer_rank) {
    next();
    VecExpr e;
    e.op = VecOp::iota;
    e.type = Reg::i32;
    e.id = at.text[4] - '0';
    return leaf(std::move(e), at);
  }
  if (peek(1).is("(") || (peek(1).is("!") && peek(2).is("("))) {
    next();
    return vec_function(at);
  }
  return vec_name();
}

Assembler::Vec Assembler::vec_name() {
  const Token at = peek();
  const Name* name = lookup(at.text);
  if (!name)
    fail_at(at, "unknown name {}: expected a buffer, a scalar, a range's .size or .start, or a coordinate",
            describe(at));
  VecExpr e;
  switch (name->kind) {
    case Name::Kind::buffer:
      e.op = VecOp::operand;
      e.ref = operand();
      if (e.ref.transposed) fail_at(at, "a vector operand can't be transposed: mv it first");
      e.type = register_of(kernel_->buffers[e.ref.buffer].format);
      return leaf(std::move(e), at);
    case Name::Kind::scalar:
      next();
      e.op = VecOp::scalar;
      e.id = name->id;
      e.type = kernel_->scalars[name->id].is_float ? Reg::f32 : Reg::i32;
      return leaf(std::move(e), at);
    case Name::Kind::range:
      if (!peek(1).is("."))
        fail_at(at, "{} is a range: write {}.start, {}.size or {}.trip", at.text, at.text, at.text, at.text);
      break;
    case Name::Kind::grid:
      break;
    case Name::Kind::formal:
      fail_at(at, "{} is a symbol in memory: load it into a buffer first", at.text);
  }
  e.op = VecOp::integer;
  e.type = Reg::i32;
  e.expr = int_name().expr;
  return leaf(std::move(e), at);
}

Assembler::Vec Assembler::vec_function(const Token& name) {
  const bool trap = accept("!");
  expect("(");
  if (name.is("int")) {
    if (trap) fail_at(name, "! does not belong to int(...)");
    VecExpr e;
    e.op = VecOp::integer;
    e.type = Reg::i32;
    e.expr = int_expr();
    expect(")");
    return leaf(std::move(e), name);
  }
  std::vector<Vec> args;
  if (!peek().is(")")) {
    do {
      args.push_back(vec());
      if (args.size() == 3 && name.is("philox")) {
        expect(",");
        const int64_t word = integer("which word of philox", 0, 3);
        expect(")");
        Vec v = make(VecOp::philox, std::move(args), name, trap);
        v.expr.integer = word;
        return v;
      }
    } while (accept(","));
  }
  expect(")");
  if (name.is("f32") || name.is("i32") || name.is("cast")) {
    return make(VecOp::cast, std::move(args), name, trap, name.is("f32") ? Reg::f32 : Reg::i32);
  }
  if (const VecRule* rule = function_of(name.text)) {
    if (rule->op == VecOp::philox) fail_at(name, "philox takes seed, offset, index and which word (0..3)");
    return make(rule->op, std::move(args), name, trap);
  }
  if (name.is("gelu") || name.is("gelu_tanh") || name.is("sigmoid") || name.is("silu")) {
    if (args.size() != 1 || trap) fail_at(name, "{} takes one f32 argument and no !", name.text);
    return macro(name, std::move(args[0]));
  }
  fail_at(name, "unknown function {}", describe(name));
}

Assembler::Vec Assembler::macro(const Token& name, Vec x) {
  if (x.adaptable) to_f32(x.expr);
  x.adaptable = false;
  if (4 * x.nodes > limits::vec_nodes) fail_at(name, "an expression has at most {} operations", limits::vec_nodes);
  auto of = [&](VecOp op, Vec a) {
    std::vector<Vec> args;
    args.push_back(std::move(a));
    return make(op, std::move(args), name);
  };
  auto of2 = [&](VecOp op, Vec a, Vec b) {
    std::vector<Vec> args;
    args.push_back(std::move(a));
    args.push_back(std::move(b));
    return make(op, std::move(args), name);
  };
  auto number = [&](double v) { return constant(v, name); };
  if (name.is("gelu")) {  // x / 2 * (1 + erf(x / sqrt(2)))
    Vec phi = of2(VecOp::add, number(1), of(VecOp::erf, of2(VecOp::mul, x, number(0.7071067811865476))));
    return of2(VecOp::mul, of2(VecOp::mul, number(0.5), x), std::move(phi));
  }
  if (name.is("gelu_tanh")) {  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
    Vec cubed = of2(VecOp::mul, of(VecOp::square, x), x);
    Vec inner = of2(VecOp::add, x, of2(VecOp::mul, number(0.044715), std::move(cubed)));
    Vec phi =
        of2(VecOp::add, number(1), of(VecOp::tanh, of2(VecOp::mul, number(0.7978845608028654), std::move(inner))));
    return of2(VecOp::mul, of2(VecOp::mul, number(0.5), x), std::move(phi));
  }
  Vec denominator = of2(VecOp::add, number(1), of(VecOp::exp, of(VecOp::neg, x)));
  return of2(VecOp::div, name.is("silu") ? std::move(x) : number(1), std::move(denominator));
}

}  // namespace spyre::program
