// Arithmetic of two operands, each a tensor or a number, in the type that torch promotes them to.
#include "graph/import_call.h"

namespace spyre::graph {
namespace {

/// Two operands (arguments a and b) in their common type, over their broadcast sizes.
struct Operands {
  Operands(Call& call, size_t a, size_t b, bool as_float = false)
      : type(result_type(call, {a, b})), points(call, sizes(call, a, b)) {
    if (!is_arithmetic(type)) call.refuse("no arithmetic in {}: cast to float32", base::host_name(type));
    if (as_float && !is_float(type)) type = HostType::f32;
    x = points.operand(a, type);
    y = points.operand(b, type);
  }

  static std::vector<Size> sizes(Call& call, size_t a, size_t b) {
    if (!call.is_tensor(a)) return call.tensor(b).sizes;
    if (!call.is_tensor(b)) return call.tensor(a).sizes;
    return broadcast(call, call.tensor(a).sizes, call.tensor(b).sizes);
  }
  bool traps() const { return type == HostType::i64; }
  Expr op(VecOp code, Expr a, Expr b) const { return x2(code, std::move(a), std::move(b), traps()); }
  std::vector<Arg> result(Expr e) { return {points.elementwise(std::move(e), type)}; }

  HostType type;
  Points points;
  Expr x, y;
};

bool is_one(const Call& call, size_t i) {
  if (!call.has(i)) return true;
  if (const Size* s = std::get_if<Size>(&call.at(i))) return s->is(1);
  if (const double* d = std::get_if<double>(&call.at(i))) return *d == 1;
  return false;
}

/// a + alpha b, a - alpha b or (reversed) b - alpha a. Of two bools, + is or.
std::vector<Arg> sum(Call& call, VecOp op, bool reversed) {
  Operands o(call, 0, 1);
  Expr a = reversed ? o.y : o.x, b = reversed ? o.x : o.y;
  if (o.type == HostType::b8) {
    if (op == VecOp::sub || !is_one(call, 2)) call.refuse("difference of bools: use logical_xor or logical_not");
    return o.result(x2(VecOp::logical_or, std::move(a), std::move(b)));
  }
  if (!is_one(call, 2)) b = o.op(VecOp::mul, std::move(b), number_expr(call, 2, register_of(o.type)));
  return o.result(o.op(op, std::move(a), std::move(b)));
}

std::vector<Arg> add(Call& call) { return sum(call, VecOp::add, false); }
std::vector<Arg> sub(Call& call) { return sum(call, VecOp::sub, false); }
std::vector<Arg> rsub(Call& call) { return sum(call, VecOp::sub, true); }

std::vector<Arg> mul(Call& call) {
  Operands o(call, 0, 1);
  if (o.type == HostType::b8) return o.result(x2(VecOp::logical_and, o.x, o.y));
  return o.result(o.op(VecOp::mul, o.x, o.y));
}

std::vector<Arg> true_div(Call& call) {
  Operands o(call, 0, 1, true);
  return o.result(x2(VecOp::div, o.x, o.y));
}

/// Exclusive or.
Expr different(Expr a, Expr b) {
  return x2(VecOp::logical_and, x2(VecOp::logical_or, a, b), x1(VecOp::logical_not, x2(VecOp::logical_and, a, b)));
}

/// Remainder and divisor have different signs, so that rounding down and truncation differ.
Expr shifts(const Expr& rest, const Expr& divisor) {
  Expr signs = different(x2(VecOp::lt, rest, Expr::f32(0)), x2(VecOp::lt, divisor, Expr::f32(0)));
  return x2(VecOp::logical_and, x2(VecOp::ne, rest, Expr::f32(0)), std::move(signs));
}

/// As torch's div_floor: exact where a / b is an integer, unlike floor(a / b).
Expr float_floor_div(const Expr& a, const Expr& b) {
  Expr rest = x2(VecOp::fmod, a, b);
  Expr quotient = x2(VecOp::div, x2(VecOp::sub, a, rest), b);
  quotient = where(shifts(rest, b), x2(VecOp::sub, quotient, Expr::f32(1)), quotient);
  Expr down = x1(VecOp::floor, quotient);
  Expr close = x2(VecOp::gt, x2(VecOp::sub, quotient, down), Expr::f32(0.5));
  down = where(std::move(close), x2(VecOp::add, down, Expr::f32(1)), down);
  return where(x2(VecOp::eq, b, Expr::f32(0)), x2(VecOp::div, a, b), std::move(down));
}

/// Quotient of integers; a divisor of zero raises, as on the CPU.
Expr divide(VecOp op, const Operands& o) { return x2(op, o.x, o.y, true); }

std::vector<Arg> rounded_div(Call& call, bool down) {
  Operands o(call, 0, 1);
  if (o.type == HostType::b8) call.refuse("division of bools");
  if (!is_float(o.type)) return o.result(divide(down ? VecOp::floor_div : VecOp::div, o));
  return o.result(down ? float_floor_div(o.x, o.y) : x1(VecOp::trunc, x2(VecOp::div, o.x, o.y)));
}

std::vector<Arg> floor_divide(Call& call) { return rounded_div(call, true); }

std::vector<Arg> div_mode(Call& call) {
  const std::string mode = call.text(2);
  if (mode.empty()) return true_div(call);
  if (mode != "floor" && mode != "trunc") call.refuse("rounding_mode is None, floor or trunc");
  return rounded_div(call, mode == "floor");
}

/// What is left by a quotient that is rounded down (floor_div) or towards zero (div). The remainder operation itself
/// can't trap.
Expr rest_of(const Operands& o, VecOp quotient) {
  return x2(VecOp::sub, o.x, x2(VecOp::mul, o.y, divide(quotient, o)));
}

std::vector<Arg> remainder(Call& call) {
  Operands o(call, 0, 1);
  if (o.type == HostType::b8) call.refuse("division of bools");
  if (!is_float(o.type)) return o.result(rest_of(o, VecOp::floor_div));
  Expr rest = x2(VecOp::fmod, o.x, o.y);
  return o.result(where(shifts(rest, o.y), x2(VecOp::add, rest, o.y), rest));
}

std::vector<Arg> fmod(Call& call) {
  Operands o(call, 0, 1);
  if (o.type == HostType::b8) call.refuse("division of bools");
  if (is_float(o.type)) return o.result(x2(VecOp::fmod, o.x, o.y));
  return o.result(rest_of(o, VecOp::div));
}

template <VecOp op>
std::vector<Arg> extreme(Call& call) {
  Operands o(call, 0, 1);
  if (o.type == HostType::b8) return o.result(x2(op == VecOp::max ? VecOp::logical_or : VecOp::logical_and, o.x, o.y));
  return o.result(x2(op, o.x, o.y));
}

/// fmax and fmin: NaN loses.
template <VecOp op>
std::vector<Arg> number_extreme(Call& call) {
  Operands o(call, 0, 1);
  if (!is_float(o.type)) return extreme<op>(call);
  Expr both = x2(op, o.x, o.y);
  return o.result(where(x1(VecOp::is_nan, o.x), o.y, where(x1(VecOp::is_nan, o.y), o.x, std::move(both))));
}

Expr integer_power(const Operands& o, int64_t exponent) {
  Expr out = o.x;
  for (int64_t i = 1; i < exponent; ++i) out = o.op(VecOp::mul, std::move(out), o.x);
  return out;
}

std::vector<Arg> pow_scalar(Call& call) {
  if (std::holds_alternative<ParamArg>(call.at(1))) {
    Operands o(call, 0, 1);
    if (!is_float(o.type)) call.refuse("an integer to a power known only at launch");
    return o.result(x2(VecOp::pow, o.x, o.y));
  }
  const double exponent = call.number(1);
  Operands o(call, 0, 1);
  if (o.type == HostType::b8) call.refuse("a power of bools");
  if (exponent == 1) return o.result(o.x);
  if (!is_float(o.type)) {
    if (exponent < 0 || exponent > 16) call.refuse("integers have powers 0 to 16 here");
    if (exponent == 0) return o.result(Expr::i32(1));
    return o.result(integer_power(o, static_cast<int64_t>(exponent)));
  }
  if (exponent == 0) return o.result(Expr::f32(1));
  if (exponent == 2) return o.result(x1(VecOp::square, o.x));
  if (exponent == 3) return o.result(x2(VecOp::mul, x1(VecOp::square, o.x), o.x));
  if (exponent == 0.5) return o.result(x1(VecOp::sqrt, o.x));
  if (exponent == -0.5) return o.result(x1(VecOp::rsqrt, o.x));
  if (exponent == -1) return o.result(x1(VecOp::rcp, o.x));
  if (exponent == -2) return o.result(x1(VecOp::rcp, x1(VecOp::square, o.x)));
  return o.result(x2(VecOp::pow, o.x, o.y));
}

std::vector<Arg> pow_tensor(Call& call) {
  Operands o(call, 0, 1);
  if (!is_float(o.type)) call.refuse("integers to the power of a tensor of integers: cast one to float32");
  return o.result(x2(VecOp::pow, o.x, o.y));
}

template <VecOp op>
std::vector<Arg> bits(Call& call) {
  Operands o(call, 0, 1);
  if (is_float(o.type)) call.refuse("bits of {}", base::host_name(o.type));
  if (o.type != HostType::b8) return o.result(x2(op, o.x, o.y));
  if (op == VecOp::bit_xor) return o.result(different(o.x, o.y));
  return o.result(x2(op == VecOp::bit_and ? VecOp::logical_and : VecOp::logical_or, o.x, o.y));
}

template <VecOp op>
std::vector<Arg> shift(Call& call) {
  Operands o(call, 0, 1);
  if (is_float(o.type) || o.type == HostType::b8) call.refuse("shift of {}", base::host_name(o.type));
  const auto by = o.y.leaf == Expr::Leaf::constant ? o.y.integer : -1;
  const int64_t width = o.type == HostType::i64 ? 32 : 8 * base::host_bytes(o.type);
  if (by < 0 || by >= width) call.refuse("shifts are by a constant from 0 to less than the width");
  // A shift to the left that leaves int64's 32 bits is a product that traps.
  if (op == VecOp::shl && o.traps()) {
    if (by == 31) call.refuse("shifts of int64 are by less than 31");
    return o.result(o.op(VecOp::mul, o.x, Expr::i32(int64_t{1} << by)));
  }
  return o.result(x2(op, o.x, o.y));
}

constexpr ImportEntry arithmetic_entries[] = {
    {"aten::add.Tensor", add},
    {"aten::add.Scalar", add},
    {"aten::sub.Tensor", sub},
    {"aten::sub.Scalar", sub},
    {"aten::rsub.Tensor", rsub},
    {"aten::rsub.Scalar", rsub},
    {"aten::mul.Tensor", mul},
    {"aten::mul.Scalar", mul},
    {"aten::div.Tensor", true_div},
    {"aten::div.Scalar", true_div},
    {"aten::div.Tensor_mode", div_mode},
    {"aten::div.Scalar_mode", div_mode},
    {"aten::true_divide.Tensor", true_div},
    {"aten::true_divide.Scalar", true_div},
    {"aten::floor_divide", floor_divide},
    {"aten::floor_divide.Scalar", floor_divide},
    {"aten::remainder.Tensor", remainder},
    {"aten::remainder.Scalar", remainder},
    {"aten::remainder.Scalar_Tensor", remainder},
    {"aten::fmod.Tensor", fmod},
    {"aten::fmod.Scalar", fmod},
    {"aten::maximum", extreme<VecOp::max>},
    {"aten::minimum", extreme<VecOp::min>},
    {"aten::max.other", extreme<VecOp::max>},
    {"aten::min.other", extreme<VecOp::min>},
    {"aten::fmax", number_extreme<VecOp::max>},
    {"aten::fmin", number_extreme<VecOp::min>},
    {"aten::pow.Tensor_Scalar", pow_scalar},
    {"aten::pow.Tensor_Tensor", pow_tensor},
    {"aten::pow.Scalar", pow_tensor},
    {"aten::bitwise_and.Tensor", bits<VecOp::bit_and>},
    {"aten::bitwise_and.Scalar", bits<VecOp::bit_and>},
    {"aten::bitwise_and.Scalar_Tensor", bits<VecOp::bit_and>},
    {"aten::bitwise_or.Tensor", bits<VecOp::bit_or>},
    {"aten::bitwise_or.Scalar", bits<VecOp::bit_or>},
    {"aten::bitwise_or.Scalar_Tensor", bits<VecOp::bit_or>},
    {"aten::bitwise_xor.Tensor", bits<VecOp::bit_xor>},
    {"aten::bitwise_xor.Scalar", bits<VecOp::bit_xor>},
    {"aten::bitwise_xor.Scalar_Tensor", bits<VecOp::bit_xor>},
    {"aten::bitwise_left_shift.Tensor_Scalar", shift<VecOp::shl>},
    {"aten::bitwise_right_shift.Tensor_Scalar", shift<VecOp::shr>},
};

}  // namespace

std::span<const ImportEntry> arithmetic_imports() { return arithmetic_entries; }

}  // namespace spyre::graph
