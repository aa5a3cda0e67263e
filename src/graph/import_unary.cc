// Elementwise functions of one tensor.
#include <cmath>

#include "graph/import_call.h"

namespace spyre::graph {
namespace {

using Function = Expr (*)(Expr);

void check_arithmetic(const Call& call, HostType type) {
  if (!is_arithmetic(type)) call.refuse("no arithmetic in {}: cast to float32", base::host_name(type));
}

/// Integers and bool give f32, as torch's default dtype.
template <Function function>
std::vector<Arg> float_function(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  check_arithmetic(call, type);
  Points p(call, x.sizes);
  Expr value = function(p.read(x, Reg::f32));
  return {p.elementwise(std::move(value), is_float(type) ? type : HostType::f32)};
}

template <VecOp op>
Expr apply(Expr x) {
  return x1(op, std::move(x));
}

/// Integers are unchanged by rounding.
template <VecOp op>
std::vector<Arg> rounding(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  check_arithmetic(call, type);
  if (type == HostType::b8) call.refuse("rounding of bool");
  Points p(call, x.sizes);
  Expr value = p.read(x);
  if (is_float(type)) value = x1(op, std::move(value));
  return {p.elementwise(std::move(value), type)};
}

/// The result has the tensor's type; i64 traps where the result leaves 32 bits.
template <VecOp op>
std::vector<Arg> same_type(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  check_arithmetic(call, type);
  if (type == HostType::b8) call.refuse("bool");
  Points p(call, x.sizes);
  std::vector<Expr> args;
  args.push_back(p.read(x));
  return {p.elementwise(Expr::make(op, std::move(args), type == HostType::i64), type)};
}

std::vector<Arg> sign(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  check_arithmetic(call, type);
  Points p(call, x.sizes);
  Expr e = p.read(x);
  // Not the device's sign operation: of NaN and of both zeros torch gives 0.
  if (e.type == Reg::f32 || e.type == Reg::i32) {
    const auto number = [&](int value) { return e.type == Reg::f32 ? Expr::f32(value) : Expr::i32(value); };
    Expr negative = x2(VecOp::lt, e, number(0)), positive = x2(VecOp::gt, e, number(0));
    e = where(std::move(positive), number(1), where(std::move(negative), number(-1), number(0)));
  }
  return {p.elementwise(std::move(e), type)};
}

/// A test of a float; of other types `otherwise`.
template <Function test, bool otherwise>
std::vector<Arg> float_test(Call& call) {
  const Ref x = call.tensor(0);
  check_arithmetic(call, call.type(x));
  Points p(call, x.sizes);
  if (call.reg(x) != Reg::f32) return {p.map(Expr::pred(otherwise), HostType::b8)};
  Expr value = test(p.read(x));
  return {p.elementwise(std::move(value), HostType::b8)};
}

Expr is_inf(Expr x) { return x2(VecOp::eq, x1(VecOp::abs, std::move(x)), Expr::f32(infinity)); }
Expr is_finite(Expr x) { return x2(VecOp::lt, x1(VecOp::abs, std::move(x)), Expr::f32(infinity)); }
Expr log10_of(Expr x) { return x2(VecOp::mul, x1(VecOp::log, std::move(x)), Expr::f32(1 / std::log(10.0))); }
Expr half(Expr x) { return x2(VecOp::mul, std::move(x), Expr::f32(0.5)); }
// By expm1, so that nothing cancels at small x.
Expr sinh_of(Expr x) { return half(x2(VecOp::sub, x1(VecOp::expm1, x), x1(VecOp::expm1, x1(VecOp::neg, x)))); }
Expr cosh_of(Expr x) { return half(x2(VecOp::add, x1(VecOp::exp, x), x1(VecOp::exp, x1(VecOp::neg, x)))); }

std::vector<Arg> logical_not(Call& call) {
  const Ref x = call.tensor(0);
  check_arithmetic(call, call.type(x));
  Points p(call, x.sizes);
  Expr value = x1(VecOp::logical_not, p.read(x, Reg::pred));
  return {p.elementwise(std::move(value), HostType::b8)};
}

std::vector<Arg> bitwise_not(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  Points p(call, x.sizes);
  Expr e = p.read(x);
  if (e.type == Reg::f32) call.refuse("bits of {}", base::host_name(type));
  e = x1(e.type == Reg::pred ? VecOp::logical_not : VecOp::bit_not, std::move(e));
  return {p.elementwise(std::move(e), type)};
}

constexpr ImportEntry unary_entries[] = {
    {"aten::exp", float_function<apply<VecOp::exp>>},
    {"aten::exp2", float_function<apply<VecOp::exp2>>},
    {"aten::expm1", float_function<apply<VecOp::expm1>>},
    {"aten::log", float_function<apply<VecOp::log>>},
    {"aten::log2", float_function<apply<VecOp::log2>>},
    {"aten::log10", float_function<log10_of>},
    {"aten::log1p", float_function<apply<VecOp::log1p>>},
    {"aten::sqrt", float_function<apply<VecOp::sqrt>>},
    {"aten::rsqrt", float_function<apply<VecOp::rsqrt>>},
    {"aten::reciprocal", float_function<apply<VecOp::rcp>>},
    {"aten::sin", float_function<apply<VecOp::sin>>},
    {"aten::cos", float_function<apply<VecOp::cos>>},
    {"aten::tan", float_function<apply<VecOp::tan>>},
    {"aten::tanh", float_function<apply<VecOp::tanh>>},
    {"aten::sinh", float_function<sinh_of>},
    {"aten::cosh", float_function<cosh_of>},
    {"aten::erf", float_function<apply<VecOp::erf>>},
    {"aten::sigmoid", float_function<sigmoid>},
    {"aten::floor", rounding<VecOp::floor>},
    {"aten::ceil", rounding<VecOp::ceil>},
    {"aten::round", rounding<VecOp::round>},
    {"aten::trunc", rounding<VecOp::trunc>},
    {"aten::neg", same_type<VecOp::neg>},
    {"aten::abs", same_type<VecOp::abs>},
    {"aten::square", same_type<VecOp::square>},
    {"aten::sign", sign},
    {"aten::sgn", sign},
    {"aten::isnan", float_test<apply<VecOp::is_nan>, false>},
    {"aten::isinf", float_test<is_inf, false>},
    {"aten::isfinite", float_test<is_finite, true>},
    {"aten::logical_not", logical_not},
    {"aten::bitwise_not", bitwise_not},
};

}  // namespace

std::span<const ImportEntry> unary_imports() { return unary_entries; }

}  // namespace spyre::graph
