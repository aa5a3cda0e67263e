// Selection, clamping, and the elementwise operations of three tensors.
#include "graph/import_call.h"

namespace spyre::graph {
namespace {

/// Broadcast sizes of the tensors among arguments.
std::vector<Size> common_sizes(Call& call, std::initializer_list<size_t> which) {
  std::vector<Size> sizes;
  bool first = true;
  for (size_t i : which) {
    if (!call.has(i) || !call.is_tensor(i)) continue;
    sizes = first ? call.tensor(i).sizes : broadcast(call, sizes, call.tensor(i).sizes);
    first = false;
  }
  return sizes;
}

std::vector<Arg> select_where(Call& call) {
  if (call.type(call.tensor(0)) != HostType::b8) call.refuse("the condition must be bool");
  const HostType type = result_type(call, {1, 2});
  Points p(call, common_sizes(call, {0, 1, 2}));
  Expr condition = p.read(call.tensor(0)), then = p.operand(1, type), otherwise = p.operand(2, type);
  return {p.elementwise(where(std::move(condition), std::move(then), std::move(otherwise)), type)};
}

std::vector<Arg> masked_fill(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  if (call.type(call.tensor(1)) != HostType::b8) call.refuse("the mask must be bool");
  if (call.is_tensor(2) && !call.tensor(2).sizes.empty()) call.refuse("the value must have no dimensions");
  if (call.is_tensor(2) && !is_float(type) && is_float(call.type(call.tensor(2))))
    call.refuse("a float value for integers");
  Points p(call, common_sizes(call, {0, 1}));
  Expr value = call.is_tensor(2) ? stored(p.read(call.tensor(2)), type) : number_expr(call, 2, register_of(type));
  Expr condition = p.read(call.tensor(1)), otherwise = p.read(x);
  return {p.elementwise(where(std::move(condition), std::move(value), std::move(otherwise)), type)};
}

/// max(x, lo) then min(x, hi), of those of arguments `lo` and `hi` that are there.
std::vector<Arg> clamped(Call& call, size_t lo, size_t hi) {
  const HostType type = result_type(call, {0, lo, hi});
  if (type == HostType::b8 || !is_arithmetic(type)) call.refuse("clamp of {}", base::host_name(type));
  if (!call.has(lo) && !call.has(hi)) call.refuse("min and max are both None");
  Points p(call, common_sizes(call, {0, lo, hi}));
  Expr e = p.operand(0, type);
  if (call.has(lo)) e = x2(VecOp::max, std::move(e), p.operand(lo, type));
  if (call.has(hi)) e = x2(VecOp::min, std::move(e), p.operand(hi, type));
  return {p.elementwise(std::move(e), type)};
}

std::vector<Arg> clamp(Call& call) { return clamped(call, 1, 2); }
std::vector<Arg> clamp_min(Call& call) { return clamped(call, 1, absent); }
std::vector<Arg> clamp_max(Call& call) { return clamped(call, absent, 1); }

void check_floats(Call& call, HostType type) {
  if (!is_float(type) || !is_arithmetic(type)) call.refuse("this takes float16, bfloat16 or float32");
}

/// a + weight (b - a); from b's side when the weight is near 1, as torch.
std::vector<Arg> lerp(Call& call) {
  const HostType type = result_type(call, {0, 1});
  check_floats(call, type);
  Points p(call, common_sizes(call, {0, 1, 2}));
  const Expr a = p.operand(0, type), b = p.operand(1, type), weight = p.operand(2, HostType::f32);
  const Expr difference = x2(VecOp::sub, b, a);
  Expr near_a = x2(VecOp::add, a, x2(VecOp::mul, weight, difference));
  Expr near_b = x2(VecOp::sub, b, x2(VecOp::mul, difference, x2(VecOp::sub, Expr::f32(1), weight)));
  Expr small = x2(VecOp::lt, x1(VecOp::abs, weight), Expr::f32(0.5));
  return {p.elementwise(where(std::move(small), std::move(near_a), std::move(near_b)), type)};
}

/// self + value x (a op b)
template <VecOp op>
std::vector<Arg> add_combined(Call& call) {
  const HostType type = result_type(call, {0, 1, 2});
  const bool trap = type == HostType::i64;
  if (op == VecOp::div || type == HostType::b8) check_floats(call, type);
  Points p(call, common_sizes(call, {0, 1, 2}));
  const Expr self = p.operand(0, type), a = p.operand(1, type), b = p.operand(2, type);
  Expr term = x2(op, a, b, trap);
  if (call.has(3)) term = x2(VecOp::mul, number_expr(call, 3, register_of(type)), std::move(term), trap);
  return {p.elementwise(x2(VecOp::add, self, std::move(term), trap), type)};
}

constexpr ImportEntry ternary_entries[] = {
    {"aten::where.self", select_where},
    {"aten::where.ScalarSelf", select_where},
    {"aten::where.ScalarOther", select_where},
    {"aten::where.Scalar", select_where},
    {"aten::masked_fill.Scalar", masked_fill},
    {"aten::masked_fill.Tensor", masked_fill},
    {"aten::clamp", clamp},
    {"aten::clamp.Tensor", clamp},
    {"aten::clamp_min", clamp_min},
    {"aten::clamp_min.Tensor", clamp_min},
    {"aten::clamp_max", clamp_max},
    {"aten::clamp_max.Tensor", clamp_max},
    {"aten::lerp.Scalar", lerp},
    {"aten::lerp.Tensor", lerp},
    {"aten::addcmul", add_combined<VecOp::mul>},
    {"aten::addcdiv", add_combined<VecOp::div>},
};

}  // namespace

std::span<const ImportEntry> ternary_imports() { return ternary_entries; }

}  // namespace spyre::graph
