// Activation functions, computed in f32 within one map; and dropout, which does nothing outside of training.
#include <cmath>

#include "graph/import_call.h"

namespace spyre::graph {
namespace {

Expr add(Expr a, Expr b) { return x2(VecOp::add, std::move(a), std::move(b)); }
Expr mul(Expr a, Expr b) { return x2(VecOp::mul, std::move(a), std::move(b)); }

/// Result of an elementwise function of tensor 0 (floats only), and of its type.
template <typename Fn>
std::vector<Arg> of_floats(Call& call, Fn&& function) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  if (!is_float(type) || !is_arithmetic(type)) call.refuse("this takes float16, bfloat16 or float32");
  Points p(call, x.sizes);
  Expr value = function(p.read(x));
  return {p.elementwise(std::move(value), type)};
}

std::vector<Arg> relu(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  if (type == HostType::b8 || !is_arithmetic(type)) call.refuse("this takes numbers");
  Points p(call, x.sizes);
  Expr e = p.read(x);
  Expr zero = e.type == Reg::f32 ? Expr::f32(0) : Expr::i32(0);
  e = x2(VecOp::max, std::move(e), std::move(zero));
  return {p.elementwise(std::move(e), type)};
}

std::vector<Arg> gelu(Call& call) {
  const std::string approximate = call.text(1);
  if (!approximate.empty() && approximate != "none" && approximate != "tanh")
    call.refuse("approximate is none or tanh");
  return of_floats(call, [&](Expr x) {
    Expr inner;
    if (approximate == "tanh") {
      Expr cube = mul(mul(x, x), x);
      inner = x1(VecOp::tanh, mul(add(x, mul(std::move(cube), Expr::f32(0.044715))), Expr::f32(std::sqrt(2 / M_PI))));
    } else {
      inner = x1(VecOp::erf, mul(x, Expr::f32(std::sqrt(0.5))));
    }
    return mul(mul(std::move(x), Expr::f32(0.5)), add(std::move(inner), Expr::f32(1)));
  });
}

std::vector<Arg> silu(Call& call) {
  return of_floats(call, [](Expr x) { return mul(x, sigmoid(x)); });
}

std::vector<Arg> mish(Call& call) {
  return of_floats(call, [](Expr x) { return mul(x, x1(VecOp::tanh, x1(VecOp::log1p, x1(VecOp::exp, x)))); });
}

std::vector<Arg> log_sigmoid(Call& call) {
  return of_floats(call, [](Expr x) {
    return x2(VecOp::sub, x2(VecOp::min, x, Expr::f32(0)),
              x1(VecOp::log1p, x1(VecOp::exp, x1(VecOp::neg, x1(VecOp::abs, x)))));
  });
}

Expr clamped(Expr x, Expr lo, Expr hi) {
  return x2(VecOp::min, x2(VecOp::max, std::move(x), std::move(lo)), std::move(hi));
}
Expr hard(Expr x) {
  return mul(clamped(add(std::move(x), Expr::f32(3)), Expr::f32(0), Expr::f32(6)), Expr::f32(1.0 / 6));
}

std::vector<Arg> hardtanh(Call& call) {
  return of_floats(call, [&](Expr x) {
    return clamped(std::move(x), Expr::f32(call.number_or(1, -1)), Expr::f32(call.number_or(2, 1)));
  });
}
std::vector<Arg> hardsigmoid(Call& call) {
  return of_floats(call, [](Expr x) { return hard(std::move(x)); });
}
std::vector<Arg> hardswish(Call& call) {
  return of_floats(call, [](Expr x) { return mul(x, hard(x)); });
}

std::vector<Arg> leaky_relu(Call& call) {
  return of_floats(call, [&](Expr x) {
    Expr scaled = mul(x, call.has(1) ? number_expr(call, 1, Reg::f32) : Expr::f32(0.01));
    return where(x2(VecOp::gt, x, Expr::f32(0)), x, std::move(scaled));
  });
}

std::vector<Arg> elu(Call& call) {
  const double alpha = call.number_or(1, 1), scale = call.number_or(2, 1), input_scale = call.number_or(3, 1);
  return of_floats(call, [&](Expr x) {
    Expr low = mul(x1(VecOp::expm1, mul(x, Expr::f32(input_scale))), Expr::f32(alpha * scale));
    return where(x2(VecOp::gt, x, Expr::f32(0)), mul(x, Expr::f32(scale)), std::move(low));
  });
}

std::vector<Arg> softplus(Call& call) {
  const double beta = call.number_or(1, 1), threshold = call.number_or(2, 20);
  return of_floats(call, [&](Expr x) {
    Expr scaled = mul(x, Expr::f32(beta));
    Expr soft = mul(x1(VecOp::log1p, x1(VecOp::exp, scaled)), Expr::f32(1 / beta));
    return where(x2(VecOp::gt, std::move(scaled), Expr::f32(threshold)), std::move(x), std::move(soft));
  });
}

std::vector<Arg> threshold(Call& call) {
  return of_floats(call, [&](Expr x) {
    return where(x2(VecOp::le, x, number_expr(call, 1, Reg::f32)), number_expr(call, 2, Reg::f32), x);
  });
}

std::vector<Arg> dropout(Call& call) {
  if (call.flag(2) && call.number(1) != 0)
    call.refuse("dropout in training needs random numbers, which are not imported yet");
  return {call.tensor(0)};
}

std::vector<Arg> native_dropout(Call& call) {
  const bool train = !call.has(2) || call.flag(2);
  if (train && call.number(1) != 0) call.refuse("dropout in training needs random numbers, which are not imported yet");
  const Ref x = call.tensor(0);
  Points p(call, x.sizes);
  return {copy(call, x), p.map(Expr::pred(true), HostType::b8)};
}

constexpr ImportEntry activation_entries[] = {
    {"aten::relu", relu},
    {"aten::gelu", gelu},
    {"aten::silu", silu},
    {"aten::mish", mish},
    {"aten::log_sigmoid", log_sigmoid},
    {"aten::hardtanh", hardtanh},
    {"aten::hardsigmoid", hardsigmoid},
    {"aten::hardswish", hardswish},
    {"aten::leaky_relu", leaky_relu},
    {"aten::elu", elu},
    {"aten::softplus", softplus},
    {"aten::threshold", threshold},
    {"aten::dropout", dropout},
    {"aten::native_dropout", native_dropout},
};

}  // namespace

std::span<const ImportEntry> activation_imports() { return activation_entries; }

}  // namespace spyre::graph
