#include "program/vector_rules.h"

#include <array>

#include "base/error.h"

namespace spyre::program {

namespace {

using K = VecRule::Kind;
using V = VecOp;

constexpr VecRule rules[] = {
    {V::operand, K::leaf, 0, "operand", false, false},
    {V::constant_f, K::leaf, 0, "constant", false, false},
    {V::constant_i, K::leaf, 0, "constant", false, false},
    {V::integer, K::leaf, 0, "int", false, false},
    {V::scalar, K::leaf, 0, "scalar", false, false},
    {V::iota, K::leaf, 0, "iota", false, false},
    {V::add, K::arithmetic, 2, "+", true, true},
    {V::sub, K::arithmetic, 2, "-", true, true},
    {V::mul, K::arithmetic, 2, "*", true, true},
    {V::div, K::arithmetic, 2, "/", true, true},
    {V::min, K::arithmetic, 2, "min", false, false},
    {V::max, K::arithmetic, 2, "max", false, false},
    {V::abs, K::arithmetic, 1, "abs", false, true},
    {V::neg, K::arithmetic, 1, "-", true, true},
    {V::square, K::arithmetic, 1, "square", false, true},
    {V::floor, K::floats, 1, "floor", false, false},
    {V::ceil, K::floats, 1, "ceil", false, false},
    {V::round, K::floats, 1, "round", false, false},
    {V::trunc, K::floats, 1, "trunc", false, false},
    {V::exp, K::floats, 1, "exp", false, false},
    {V::expm1, K::floats, 1, "expm1", false, false},
    {V::log, K::floats, 1, "log", false, false},
    {V::log1p, K::floats, 1, "log1p", false, false},
    {V::log2, K::floats, 1, "log2", false, false},
    {V::exp2, K::floats, 1, "exp2", false, false},
    {V::sqrt, K::floats, 1, "sqrt", false, false},
    {V::rsqrt, K::floats, 1, "rsqrt", false, false},
    {V::sin, K::floats, 1, "sin", false, false},
    {V::cos, K::floats, 1, "cos", false, false},
    {V::tan, K::floats, 1, "tan", false, false},
    {V::tanh, K::floats, 1, "tanh", false, false},
    {V::erf, K::floats, 1, "erf", false, false},
    {V::pow, K::floats, 2, "pow", false, false},
    {V::fmod, K::floats, 2, "fmod", false, false},
    {V::fma, K::floats, 3, "fma", false, false},
    {V::rcp, K::floats, 1, "rcp", false, false},
    {V::sign, K::floats, 1, "sign", false, false},
    {V::floor_div, K::integers, 2, "div", true, true},
    {V::remainder, K::integers, 2, "mod", true, false},
    {V::bit_and, K::integers, 2, "and", true, false},
    {V::bit_or, K::integers, 2, "or", true, false},
    {V::bit_xor, K::integers, 2, "xor", true, false},
    {V::bit_not, K::integers, 1, "not", true, false},
    {V::shl, K::integers, 2, "shl", true, true},
    {V::shr, K::integers, 2, "shr", true, false},
    {V::lt, K::compare, 2, "<", true, false},
    {V::le, K::compare, 2, "<=", true, false},
    {V::gt, K::compare, 2, ">", true, false},
    {V::ge, K::compare, 2, ">=", true, false},
    {V::eq, K::compare, 2, "==", true, false},
    {V::ne, K::compare, 2, "!=", true, false},
    {V::is_nan, K::is_nan, 1, "is_nan", false, false},
    {V::logical_and, K::logical, 2, "and", true, false},
    {V::logical_or, K::logical, 2, "or", true, false},
    {V::logical_not, K::logical, 1, "not", true, false},
    {V::select, K::select, 3, "select", true, false},
    {V::cast, K::cast, 1, "cast", false, true},
    {V::philox, K::integers, 3, "philox", false, false},
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < std::size(rules); ++i) {
    if (static_cast<size_t>(rules[i].op) != i) return false;
  }
  return std::size(rules) == static_cast<size_t>(VecOp::philox) + 1;
}
static_assert(in_enum_order());

struct MonoidRule {
  std::string_view name;
  int states;
};
constexpr MonoidRule monoids[] = {{"sum", 1}, {"prod", 1},   {"max", 1},    {"min", 1},     {"any", 1},
                                  {"all", 1}, {"argmax", 2}, {"argmin", 2}, {"welford", 3}, {"logsumexp", 2}};

}  // namespace

const VecRule& rule_of(VecOp op) { return rules[static_cast<size_t>(op)]; }

const VecRule* function_of(std::string_view name) {
  for (const VecRule& rule : rules) {
    if (!rule.is_operator && rule.kind != K::leaf && rule.op != V::cast && rule.name == name) return &rule;
  }
  return nullptr;
}

Reg register_of(Format format) {
  switch (format) {
    case Format::i32:
    case Format::u32:
    case Format::i16:
    case Format::i8:
      return Reg::i32;
    default:
      return Reg::f32;
  }
}

std::string_view register_name(Reg reg) {
  constexpr std::string_view names[] = {"f32", "i32", "pred"};
  return names[static_cast<size_t>(reg)];
}

TypeOrError result_type(const VecExpr& expr) {
  const VecRule& rule = rule_of(expr.op);
  const std::vector<VecExpr>& args = expr.args;
  const std::string name(rule.name);
  if (static_cast<int>(args.size()) != rule.arguments) {
    return {Reg::f32, fmt::format("{} takes {} arguments, not {}", name, rule.arguments, args.size())};
  }
  auto all_are = [&](Reg reg) {
    for (const VecExpr& a : args) {
      if (a.type != reg) return false;
    }
    return true;
  };
  auto list = [&] {
    std::string text;
    for (const VecExpr& a : args) text += (text.empty() ? "" : ", ") + std::string(register_name(a.type));
    return text;
  };
  TypeOrError result;
  switch (rule.kind) {
    case K::leaf:
      result.type = expr.type;
      break;
    case K::arithmetic:
    case K::compare:
      if (!all_are(Reg::f32) && !all_are(Reg::i32)) {
        result.error = fmt::format("{} takes f32 or i32 of one type, not {}: cast with f32(x) or i32(x)", name, list());
      }
      result.type = rule.kind == K::compare ? Reg::pred : args[0].type;
      break;
    case K::floats:
    case K::is_nan:
      if (!all_are(Reg::f32)) result.error = fmt::format("{} takes f32, not {}: cast with f32(x)", name, list());
      result.type = rule.kind == K::is_nan ? Reg::pred : Reg::f32;
      break;
    case K::integers:
      if (!all_are(Reg::i32)) result.error = fmt::format("{} takes i32, not {}: cast with i32(x)", name, list());
      result.type = Reg::i32;
      break;
    case K::logical:
      if (!all_are(Reg::pred)) result.error = fmt::format("{} takes predicates or i32, not {}", name, list());
      result.type = Reg::pred;
      break;
    case K::select:
      if (args[0].type != Reg::pred || args[1].type != args[2].type) {
        result.error = fmt::format("? : takes a predicate and two values of one type, not {}", list());
      }
      result.type = args[1].type;
      break;
    case K::cast:
      if (expr.type == Reg::pred) result.error = "cast goes to f32 or i32; a predicate is x != 0";
      result.type = expr.type;
      break;
  }
  if (result.error.empty() && expr.trap && !(rule.may_trap && result.type == Reg::i32)) {
    result.error = fmt::format("! belongs to i32 results of + - * / neg abs square div shl cast, not to {} of {}", name,
                               register_name(result.type));
  }
  return result;
}

int states_of(Monoid monoid) { return monoids[static_cast<size_t>(monoid)].states; }
std::string_view monoid_name(Monoid monoid) { return monoids[static_cast<size_t>(monoid)].name; }
std::optional<Monoid> monoid_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(monoids); ++i) {
    if (monoids[i].name == name) return static_cast<Monoid>(i);
  }
  return std::nullopt;
}

Reg value_type(Monoid monoid, Reg first_state) {
  return monoid == Monoid::any || monoid == Monoid::all ? Reg::pred : first_state;
}

Reg init_type(Monoid monoid, int state, Reg first_state) {
  if (monoid == Monoid::any || monoid == Monoid::all) return Reg::pred;
  if ((monoid == Monoid::argmax || monoid == Monoid::argmin) && state == 1) return Reg::i32;
  return first_state;
}

std::optional<Reg> state_type(Monoid monoid, int state) {
  if (monoid == Monoid::welford || monoid == Monoid::logsumexp) return Reg::f32;
  if ((monoid == Monoid::argmax || monoid == Monoid::argmin) && state == 1) return Reg::i32;
  return std::nullopt;
}

bool can_scan(Monoid monoid) { return monoid <= Monoid::min; }

}  // namespace spyre::program
