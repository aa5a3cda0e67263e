// Tensors made of numbers: constants and ranges.
#include <cmath>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

Ref constant_tensor(Call& call, std::vector<Size> sizes, double number, HostType type, std::vector<Size> strides = {}) {
  Points p(call, std::move(sizes));
  const Reg reg = register_of(type);
  Expr e = reg == Reg::f32    ? Expr::f32(number)
           : reg == Reg::pred ? Expr::pred(number != 0)
                              : Expr::i32(static_cast<int64_t>(number));
  return p.map(std::move(e), type, std::move(strides));
}

Ref number_tensor(Call& call, std::vector<Size> sizes, size_t number, HostType type, std::vector<Size> strides = {}) {
  const double* d = std::get_if<double>(&call.at(number));
  Points p(call, std::move(sizes));
  // A float for an integer type is truncated.
  Expr e = d && register_of(type) == Reg::i32 && std::abs(*d) < 2147483648.0
               ? Expr::i32(static_cast<int64_t>(*d))
               : number_expr(call, number, register_of(type));
  return p.map(std::move(e), type, std::move(strides));
}

std::vector<Size> like_strides(const Ref& x) { return is_dense(x.sizes, x.strides) ? x.strides : std::vector<Size>(); }

/// full(size, value, dtype, ...)
std::vector<Arg> full(Call& call) {
  return {number_tensor(call, call.integers(0), 1, call.dtype(2).value_or(number_type(call, 1)))};
}
/// full_like(self, value, dtype, ...)
std::vector<Arg> full_like(Call& call) {
  const Ref x = call.tensor(0);
  return {number_tensor(call, x.sizes, 1, call.dtype(2).value_or(call.type(x)), like_strides(x))};
}
/// new_full(self, size, value, dtype, ...)
std::vector<Arg> new_full(Call& call) {
  return {number_tensor(call, call.integers(1), 2, call.dtype(3).value_or(call.type(call.tensor(0))))};
}
template <int value>
std::vector<Arg> filled(Call& call) {
  return {constant_tensor(call, call.integers(0), value, call.dtype(1).value_or(HostType::f32))};
}
template <int value>
std::vector<Arg> filled_like(Call& call) {
  const Ref x = call.tensor(0);
  return {constant_tensor(call, x.sizes, value, call.dtype(1).value_or(call.type(x)), like_strides(x))};
}
template <int value>
std::vector<Arg> new_filled(Call& call) {
  return {constant_tensor(call, call.integers(1), value, call.dtype(2).value_or(call.type(call.tensor(0))))};
}
std::vector<Arg> empty_strided(Call& call) {
  const std::vector<Size> sizes = call.integers(0), strides = call.integers(1);
  if (sizes.size() != strides.size() || !is_dense(sizes, strides)) call.refuse("strides with gaps or overlaps");
  return {constant_tensor(call, sizes, 0, call.dtype(2).value_or(HostType::f32), strides)};
}

std::vector<Arg> scalar_tensor(Call& call) {
  return {number_tensor(call, {}, 0, call.dtype(1).value_or(HostType::f32))};
}

/// fill(self, value): a number or a tensor without dimensions.
std::vector<Arg> fill(Call& call) {
  const Ref x = call.tensor(0);
  if (!call.is_tensor(1)) return {number_tensor(call, x.sizes, 1, call.type(x), like_strides(x))};
  if (!call.tensor(1).sizes.empty()) call.refuse("the value must have no dimensions");
  return {copy(call, expand_to(call, as_type(call, call.tensor(1), call.type(x)), x.sizes), like_strides(x))};
}

/// start + step x i for i < count
Ref progression(Call& call, const Size& count, Expr start, Expr step, HostType type) {
  if (type == HostType::b8) call.refuse("a range of bools");
  const bool trap = type == HostType::i64;
  Points p(call, {count});
  Expr e = Expr::cast(Expr::iota(0), start.type);
  const auto is = [](const Expr& x, int64_t n) {
    return x.leaf == Expr::Leaf::constant && (x.type == Reg::f32 ? x.number == static_cast<double>(n) : x.integer == n);
  };
  if (!is(step, 1)) e = x2(VecOp::mul, std::move(e), std::move(step), trap);
  if (!is(start, 0)) e = x2(VecOp::add, std::move(start), std::move(e), trap);
  return p.map(std::move(e), type);
}

/// arange with these arguments (`none_given`: the default).
std::vector<Arg> arange(Call& call, size_t start, size_t end, size_t step, size_t dtype) {
  constexpr size_t none_given = 99;
  bool floats = false;
  for (size_t i : {start, end, step}) {
    if (i == none_given || !call.has(i)) continue;
    if (number_type(call, i) == HostType::f32) floats = true;
    if (std::holds_alternative<ParamArg>(call.at(i)))
      call.refuse("the number of elements depends on a number known only at launch");
  }
  const HostType type = call.dtype(dtype).value_or(floats ? HostType::f32 : HostType::i64);
  const auto given = [&](size_t i) { return i != none_given && call.has(i); };
  if (!floats) {
    const Size first = given(start) ? call.integer(start) : Size(0), last = call.integer(end);
    const int64_t by = given(step) ? call.constant(step) : 1;
    if (by == 0) call.refuse("a step of 0");
    const Size count =
        by > 0 ? Size::floor_div(last - first + (by - 1), by) : Size::floor_div(first - last + (-by - 1), -by);
    if (count.constant() && *count.constant() < 0) call.refuse("the end is before the start");
    const bool as_float = is_float(type);
    Expr from = as_float ? Expr::cast(integer_expr(call, first), Reg::f32) : integer_expr(call, first);
    return {progression(call, count, std::move(from),
                        as_float ? Expr::f32(static_cast<double>(by)) : integer_expr(call, by), type)};
  }
  const double first = given(start) ? call.number(start) : 0, last = call.number(end),
               by = given(step) ? call.number(step) : 1;
  const double count = std::ceil((last - first) / by);
  if (!(count >= 0 && count < 2147483648.0)) call.refuse("no such range");
  if (!is_float(type)) call.refuse("a range of floats as integers");
  return {progression(call, static_cast<int64_t>(count), Expr::f32(first), Expr::f32(by), type)};
}

std::vector<Arg> arange_end(Call& call) { return arange(call, absent, 0, absent, 1); }
std::vector<Arg> arange_start(Call& call) { return arange(call, 0, 1, absent, 2); }
std::vector<Arg> arange_step(Call& call) { return arange(call, 0, 1, 2, 3); }

/// iota(length, start, step, dtype, ...)
std::vector<Arg> iota(Call& call) {
  const HostType type = call.dtype(3).value_or(HostType::i64);
  if (!is_integer(type)) call.refuse("a range of {}", base::host_name(type));
  return {progression(call, call.integer(0), integer_expr(call, call.integer_or(1, 0)),
                      integer_expr(call, call.integer_or(2, 1)), type)};
}

std::vector<Arg> eye(Call& call) {
  const bool square = call.overload == "aten::eye";
  const Size rows = call.integer(0), columns = square ? rows : call.integer(1);
  const HostType type = call.dtype(square ? 1 : 2).value_or(HostType::f32);
  Points p(call, {rows, columns});
  return {p.map(x2(VecOp::eq, Expr::iota(0), Expr::iota(1)), type)};
}

constexpr ImportEntry creation_entries[] = {
    {"aten::full", full},
    {"aten::full_like", full_like},
    {"aten::new_full", new_full},
    {"aten::zeros", filled<0>},
    {"aten::ones", filled<1>},
    {"aten::empty.memory_format", filled<0>},
    {"aten::zeros_like", filled_like<0>},
    {"aten::ones_like", filled_like<1>},
    {"aten::empty_like", filled_like<0>},
    {"aten::zero", filled_like<0>},
    {"aten::new_zeros", new_filled<0>},
    {"aten::new_ones", new_filled<1>},
    {"aten::new_empty", new_filled<0>},
    {"aten::empty_strided", empty_strided},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::fill.Scalar", fill},
    {"aten::fill.Tensor", fill},
    {"aten::arange", arange_end},
    {"aten::arange.start", arange_start},
    {"aten::arange.start_step", arange_step},
    {"prims::iota", iota},
    {"aten::eye", eye},
    {"aten::eye.m", eye},
};

}  // namespace

std::span<const ImportEntry> creation_imports() { return creation_entries; }

}  // namespace spyre::graph
