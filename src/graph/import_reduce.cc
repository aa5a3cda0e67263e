// Reductions over dimensions.
#include <algorithm>
#include <cmath>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {

Ref keep_dims(Ref ref, std::span<const int32_t> dims) {
  for (int32_t d : dims) ref = unsqueezed(ref, d);
  return ref;
}

namespace {

Ref kept(Ref ref, std::span<const int32_t> dims, bool keep) { return keep ? keep_dims(std::move(ref), dims) : ref; }

/// How many elements each result is made of.
Size count_of(const Ref& x, std::span<const int32_t> dims) {
  Size n = 1;
  for (int32_t d : dims) n = n * x.sizes[static_cast<size_t>(d)];
  return n;
}

void check_not_empty(const Call& call, const Size& count) {
  if (count.is(0)) call.refuse("of no elements");
}

std::vector<int32_t> dims_of(Call& call, size_t dims, size_t rank) { return call.dims_or_all(dims, rank); }

/// sum or prod in `dtype`, i64 for integers when it isn't given.
std::vector<Arg> total(Call& call, Monoid monoid, size_t dims, size_t keep, size_t dtype) {
  const Ref x = call.tensor(0);
  const HostType own = call.type(x);
  const HostType type = call.dtype(dtype).value_or(is_float(own) ? own : HostType::i64);
  if (!is_arithmetic(type) || !is_arithmetic(own) || type == HostType::b8) call.refuse("in {}", base::host_name(type));
  const std::vector<int32_t> over = dims_of(call, dims, x.sizes.size());
  Points p(call, x.sizes);
  Expr value = stored(p.read(x), type);
  if (type == HostType::u8 || type == HostType::i8 || type == HostType::i16)
    call.refuse("in {}: use int32", base::host_name(type));
  Ref out = p.reduce(monoid, over, std::move(value), {type}, type == HostType::i64)[0];
  return {kept(std::move(out), over, keep != absent && call.flag(keep))};
}

std::vector<Arg> sum_all(Call& call) { return total(call, Monoid::sum, absent, absent, 1); }
std::vector<Arg> sum_dims(Call& call) { return total(call, Monoid::sum, 1, 2, 3); }
std::vector<Arg> prod_all(Call& call) { return total(call, Monoid::prod, absent, absent, 1); }
std::vector<Arg> prod_dim(Call& call) { return total(call, Monoid::prod, 1, 2, 3); }

std::vector<Arg> mean(Call& call, size_t dims, size_t keep, size_t dtype) {
  const Ref x = call.tensor(0);
  const HostType type = call.dtype(dtype).value_or(call.type(x));
  if (!is_float(type) || !is_arithmetic(type) || !is_arithmetic(call.type(x)))
    call.refuse("a mean of {}", base::host_name(type));
  const std::vector<int32_t> over = dims_of(call, dims, x.sizes.size());
  Points p(call, x.sizes);
  Expr value = p.read(x, Reg::f32);
  const Ref sum = p.reduce(Monoid::sum, over, std::move(value), {HostType::f32})[0];
  Points q(call, sum.sizes);
  Expr e = x2(VecOp::div, q.read(sum), count_expr(call, count_of(x, over)));
  return {kept(q.map(std::move(e), type), over, keep != absent && call.flag(keep))};
}

std::vector<Arg> mean_all(Call& call) { return mean(call, absent, absent, 1); }
std::vector<Arg> mean_dims(Call& call) { return mean(call, 1, 2, 3); }

Ref extreme(Call& call, Monoid monoid, const Ref& x, const std::vector<int32_t>& over) {
  const HostType type = call.type(x);
  if (!is_arithmetic(type)) call.refuse("of {}", base::host_name(type));
  check_not_empty(call, count_of(x, over));
  Points p(call, x.sizes);
  Expr value = p.read(x);
  if (type == HostType::b8) monoid = monoid == Monoid::max ? Monoid::any : Monoid::all;
  return p.reduce(monoid, over, std::move(value), {type})[0];
}

/// amax(self, dims, keepdim)
template <Monoid monoid>
std::vector<Arg> extreme_dims(Call& call) {
  const Ref x = call.tensor(0);
  const std::vector<int32_t> over = call.dims_or_all(1, x.sizes.size());
  return {kept(extreme(call, monoid, x, over), over, call.flag(2))};
}
template <Monoid monoid>
std::vector<Arg> extreme_all(Call& call) {
  const Ref x = call.tensor(0);
  return {extreme(call, monoid, x, call.dims_or_all(absent, x.sizes.size()))};
}

std::vector<Ref> value_and_place(Call& call, Monoid monoid, const Ref& x, const std::vector<int32_t>& over) {
  const HostType type = call.type(x);
  if (!is_arithmetic(type) || type == HostType::b8) call.refuse("of {}", base::host_name(type));
  check_not_empty(call, count_of(x, over));
  Points p(call, x.sizes);
  Expr value = p.read(x);
  return p.reduce(monoid, over, std::move(value), {type, HostType::i64});
}

/// max.dim(self, dim, keepdim): values, indices
template <Monoid monoid>
std::vector<Arg> extreme_with_index(Call& call) {
  const Ref x = call.tensor(0);
  std::vector<int32_t> over;
  if (!x.sizes.empty()) over.push_back(call.dim(1, x.sizes.size()));
  const std::vector<Ref> out = value_and_place(call, monoid, x, over);
  return {kept(out[0], over, call.flag(2)), kept(out[1], over, call.flag(2))};
}

/// argmax(self, dim or None, keepdim)
template <Monoid monoid>
std::vector<Arg> place_of_extreme(Call& call) {
  const Ref x = call.tensor(0);
  std::vector<int32_t> over = call.dims_or_all(absent, x.sizes.size());
  if (call.has(1) && !x.sizes.empty()) over = {call.dim(1, x.sizes.size())};
  const std::vector<Ref> out = value_and_place(call, monoid, x, over);
  return {kept(out[1], over, call.flag(2))};
}

std::vector<Arg> truth(Call& call, Monoid monoid, size_t dims, size_t keep) {
  const Ref x = call.tensor(0);
  if (call.type(x) == HostType::u8 || !is_arithmetic(call.type(x))) call.refuse("of {}", base::host_name(call.type(x)));
  const std::vector<int32_t> over = dims_of(call, dims, x.sizes.size());
  Points p(call, x.sizes);
  Expr value = p.read(x, Reg::pred);
  return {kept(p.reduce(monoid, over, std::move(value), {HostType::b8})[0], over, keep != absent && call.flag(keep))};
}
template <Monoid monoid>
std::vector<Arg> truth_all(Call& call) {
  return truth(call, monoid, absent, absent);
}
template <Monoid monoid>
std::vector<Arg> truth_dims(Call& call) {
  if (call.has(1) && call.integers(1).empty()) call.refuse("an empty list of dimensions");
  return truth(call, monoid, 1, 2);
}

struct Moments {
  Ref variance, mean;
};

/// var.correction(self, dims, correction, keepdim): m2 / max(n - correction, 0), or its root.
Moments moments(Call& call, bool root) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  if (!is_float(type) || !is_arithmetic(type)) call.refuse("of {}", base::host_name(type));
  const std::vector<int32_t> over = call.dims_or_all(1, x.sizes.size());
  const double correction = call.number_or(2, 1);
  const Size count = count_of(x, over);
  check_not_empty(call, count);
  Points p(call, x.sizes);
  Expr value = p.read(x);
  const std::vector<Ref> state =
      p.reduce(Monoid::welford, over, std::move(value), {type, HostType::f32, HostType::f32});
  Points q(call, state[1].sizes);
  Expr divisor;
  if (const auto c = count.constant())
    divisor = Expr::f32(std::max(static_cast<double>(*c) - correction, 0.0));
  else
    divisor = x2(VecOp::max, x2(VecOp::sub, count_expr(call, count), Expr::f32(correction)), Expr::f32(0));
  Expr variance = x2(VecOp::div, q.read(state[1]), std::move(divisor));
  if (root) variance = x1(VecOp::sqrt, std::move(variance));
  const bool keep = call.flag(3);
  return {kept(q.map(std::move(variance), type), over, keep), kept(state[0], over, keep)};
}

std::vector<Arg> var(Call& call) { return {moments(call, false).variance}; }
std::vector<Arg> std_deviation(Call& call) { return {moments(call, true).variance}; }
std::vector<Arg> var_mean(Call& call) {
  const Moments m = moments(call, false);
  return {m.variance, m.mean};
}
std::vector<Arg> std_mean(Call& call) {
  const Moments m = moments(call, true);
  return {m.variance, m.mean};
}

/// max + log(sum of exp(x - max)); the maximum itself where it is infinite.
std::vector<Arg> logsumexp(Call& call) {
  const Ref x = call.tensor(0);
  const HostType own = call.type(x), type = is_float(own) ? own : HostType::f32;
  if (!is_arithmetic(own)) call.refuse("of {}", base::host_name(own));
  const std::vector<int32_t> over = call.dims_or_all(1, x.sizes.size());
  Points p(call, x.sizes);
  Expr value = p.read(x, Reg::f32);
  const std::vector<Ref> state = p.reduce(Monoid::logsumexp, over, std::move(value), {HostType::f32, HostType::f32});
  Points q(call, state[0].sizes);
  const Expr max = q.read(state[0]);
  Expr finite = x2(VecOp::add, max, x1(VecOp::log, q.read(state[1])));
  Expr e = where(x2(VecOp::eq, x1(VecOp::abs, max), Expr::f32(infinity)), max, std::move(finite));
  return {kept(q.map(std::move(e), type), over, call.flag(2))};
}

/// (sum |x|^order)^(1 / order) over `over`.
Ref norm(Call& call, const Ref& x, double order, const std::vector<int32_t>& over, HostType type) {
  if (!is_float(type) || !is_float(call.type(x)) || !is_arithmetic(type))
    call.refuse("of {}", base::host_name(call.type(x)));
  Points p(call, x.sizes);
  const Expr e = p.read(x);
  const auto reduced = [&](Monoid monoid, Expr value) {
    return p.reduce(monoid, over, std::move(value), {HostType::f32})[0];
  };
  if (std::abs(order) == infinity) {
    check_not_empty(call, count_of(x, over));
    return as_type(call, reduced(order > 0 ? Monoid::max : Monoid::min, x1(VecOp::abs, e)), type);
  }
  if (order == 0)
    return as_type(call, reduced(Monoid::sum, Expr::cast(x2(VecOp::ne, e, Expr::f32(0)), Reg::f32)), type);
  if (order == 1) return as_type(call, reduced(Monoid::sum, x1(VecOp::abs, e)), type);
  const bool euclid = order == 2;
  const Ref sum =
      reduced(Monoid::sum, euclid ? x1(VecOp::square, e) : x2(VecOp::pow, x1(VecOp::abs, e), Expr::f32(order)));
  Points q(call, sum.sizes);
  Expr root = q.read(sum);
  root = euclid ? x1(VecOp::sqrt, std::move(root)) : x2(VecOp::pow, std::move(root), Expr::f32(1 / order));
  return q.map(std::move(root), type);
}

/// linalg_vector_norm(self, ord, dims, keepdim, dtype)
std::vector<Arg> vector_norm(Call& call) {
  const Ref x = call.tensor(0);
  const std::vector<int32_t> over = call.dims_or_all(2, x.sizes.size());
  return {kept(norm(call, x, call.number_or(1, 2), over, call.dtype(4).value_or(call.type(x))), over, call.flag(3))};
}
std::vector<Arg> norm_all(Call& call) {
  const Ref x = call.tensor(0);
  return {norm(call, x, call.number_or(1, 2), call.dims_or_all(absent, x.sizes.size()), call.type(x))};
}
/// norm.ScalarOpt_dim(self, p, dims, keepdim), with dtype behind it in the other overload
std::vector<Arg> norm_dims(Call& call) {
  const Ref x = call.tensor(0);
  const std::vector<int32_t> over = call.dims_or_all(2, x.sizes.size());
  return {kept(norm(call, x, call.number_or(1, 2), over, call.dtype(4).value_or(call.type(x))), over, call.flag(3))};
}

constexpr ImportEntry reduction_entries[] = {
    {"aten::sum", sum_all},
    {"aten::sum.dim_IntList", sum_dims},
    {"aten::prod", prod_all},
    {"aten::prod.dim_int", prod_dim},
    {"aten::mean", mean_all},
    {"aten::mean.dim", mean_dims},
    {"aten::amax", extreme_dims<Monoid::max>},
    {"aten::amin", extreme_dims<Monoid::min>},
    {"aten::max", extreme_all<Monoid::max>},
    {"aten::min", extreme_all<Monoid::min>},
    {"aten::max.dim", extreme_with_index<Monoid::argmax>},
    {"aten::min.dim", extreme_with_index<Monoid::argmin>},
    {"aten::argmax", place_of_extreme<Monoid::argmax>},
    {"aten::argmin", place_of_extreme<Monoid::argmin>},
    {"aten::any", truth_all<Monoid::any>},
    {"aten::any.dim", truth_dims<Monoid::any>},
    {"aten::any.dims", truth_dims<Monoid::any>},
    {"aten::all", truth_all<Monoid::all>},
    {"aten::all.dim", truth_dims<Monoid::all>},
    {"aten::all.dims", truth_dims<Monoid::all>},
    {"aten::var.correction", var},
    {"aten::std.correction", std_deviation},
    {"aten::var_mean.correction", var_mean},
    {"aten::std_mean.correction", std_mean},
    {"aten::logsumexp", logsumexp},
    {"aten::linalg_vector_norm", vector_norm},
    {"aten::norm.Scalar", norm_all},
    {"aten::norm.ScalarOpt_dim", norm_dims},
    {"aten::norm.ScalarOpt_dim_dtype", norm_dims},
};

}  // namespace

std::span<const ImportEntry> reduction_imports() { return reduction_entries; }

}  // namespace spyre::graph
