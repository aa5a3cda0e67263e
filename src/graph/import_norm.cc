// Softmax and the normalisations: a reduction, then one map in f32.
#include <limits>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

enum class SoftmaxKind : uint8_t { plain, log, safe };

std::vector<Arg> softmax_of(Call& call, SoftmaxKind kind, HostType type) {
  const Ref x = call.tensor(0);
  if (!is_arithmetic(call.type(x)) || !is_float(type) || !is_arithmetic(type))
    call.refuse("softmax in {}", base::host_name(type));
  const int32_t dim = call.dim(1, x.sizes.size());
  std::vector<int32_t> over;
  if (!x.sizes.empty()) over.push_back(dim);
  Points p(call, x.sizes);
  Expr value = p.read(x, Reg::f32);
  const std::vector<Ref> state = p.reduce(Monoid::logsumexp, over, std::move(value), {HostType::f32, HostType::f32});
  Points q(call, x.sizes);
  const Expr max = q.read(keep_dims(state[0], over)), sum = q.read(keep_dims(state[1], over));
  Expr e = x2(VecOp::sub, q.read(x, Reg::f32), max);
  if (kind == SoftmaxKind::log)
    e = x2(VecOp::sub, std::move(e), x1(VecOp::log, sum));
  else
    e = x2(VecOp::div, x1(VecOp::exp, std::move(e)), sum);
  if (kind == SoftmaxKind::safe) e = where(x2(VecOp::eq, max, Expr::f32(-infinity)), Expr::f32(0), std::move(e));
  std::vector<Size> strides;
  if (is_dense(x.sizes, x.strides)) strides = x.strides;
  return {q.map(std::move(e), type, std::move(strides))};
}

/// _softmax(self, dim, half_to_float)
template <SoftmaxKind kind>
std::vector<Arg> softmax_half(Call& call) {
  return softmax_of(call, kind, call.flag(2) ? HostType::f32 : call.type(call.tensor(0)));
}
/// softmax.int(self, dim, dtype)
template <SoftmaxKind kind>
std::vector<Arg> softmax_typed(Call& call) {
  const HostType own = call.type(call.tensor(0));
  return softmax_of(call, kind, call.dtype(2).value_or(is_float(own) ? own : HostType::f32));
}

void check_floats(const Call& call, const Ref& x) {
  if (!is_float(call.type(x)) || !is_arithmetic(call.type(x))) call.refuse("this takes float16, bfloat16 or float32");
}

/// 1 / sqrt(m2 / count + eps)
Ref inverse_deviation(Call& call, const Ref& m2, const Size& count, double eps) {
  Points p(call, m2.sizes);
  Expr variance = x2(VecOp::div, p.read(m2), count_expr(call, count));
  return p.map(x1(VecOp::rsqrt, x2(VecOp::add, std::move(variance), Expr::f32(eps))), HostType::f32);
}

/// The trailing dimensions that normalized_shape (argument i) names; refuses when the sizes differ.
std::vector<int32_t> normalized_dims(const Call& call, const Ref& x, const std::vector<Size>& shape) {
  if (shape.empty() || shape.size() > x.sizes.size()) call.refuse("normalized_shape of {} dimensions", shape.size());
  std::vector<int32_t> over;
  const size_t first = x.sizes.size() - shape.size();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!(x.sizes[first + d] == shape[d])) call.refuse("normalized_shape is not the input's");
    over.push_back(static_cast<int32_t>(first + d));
  }
  return over;
}

/// e x weight + bias, of those that are there.
Expr scaled(Points& p, Expr e, const std::optional<Ref>& weight, const std::optional<Ref>& bias) {
  if (weight) e = x2(VecOp::mul, std::move(e), p.read(*weight, Reg::f32));
  if (bias) e = x2(VecOp::add, std::move(e), p.read(*bias, Reg::f32));
  return e;
}

struct Normalised {
  Ref out, mean, deviation;
};

/// (x - mean) / deviation over `over`, then weight and bias, which broadcast to x. Mean and 1 / deviation have size 1
/// along `over`.
Normalised normalise(Call& call, const Ref& x, const std::vector<int32_t>& over, const std::optional<Ref>& weight,
                     const std::optional<Ref>& bias, double eps) {
  check_floats(call, x);
  Size count = 1;
  for (int32_t d : over) count = count * x.sizes[static_cast<size_t>(d)];
  Points p(call, x.sizes);
  Expr value = p.read(x);
  const std::vector<Ref> state =
      p.reduce(Monoid::welford, over, std::move(value), {HostType::f32, HostType::f32, HostType::f32});
  const Ref mean = keep_dims(state[0], over),
            deviation = keep_dims(inverse_deviation(call, state[1], count, eps), over);
  Points q(call, x.sizes);
  Expr e = x2(VecOp::mul, x2(VecOp::sub, q.read(x), q.read(mean)), q.read(deviation));
  e = scaled(q, std::move(e), weight, bias);
  return {q.map(std::move(e), call.type(x)), mean, deviation};
}

/// native_layer_norm(input, normalized_shape, weight, bias, eps): out, mean, rstd
std::vector<Arg> native_layer_norm(Call& call) {
  const Ref x = call.tensor(0);
  const std::vector<int32_t> over = normalized_dims(call, x, call.integers(1));
  const Normalised n = normalise(call, x, over, call.maybe_tensor(2), call.maybe_tensor(3), call.number(4));
  return {n.out, n.mean, n.deviation};
}
/// layer_norm(input, normalized_shape, weight, bias, eps, cudnn_enable)
std::vector<Arg> layer_norm(Call& call) {
  const Ref x = call.tensor(0);
  const std::vector<int32_t> over = normalized_dims(call, x, call.integers(1));
  return {normalise(call, x, over, call.maybe_tensor(2), call.maybe_tensor(3), call.number_or(4, 1e-5)).out};
}

/// A vector per channel as a tensor with `after` dimensions of size 1 behind it.
std::optional<Ref> per_channel(std::optional<Ref> vector, size_t after) {
  if (!vector) return vector;
  for (size_t i = 0; i < after; ++i) vector = unsqueezed(*vector, static_cast<int32_t>(vector->sizes.size()));
  return vector;
}

/// native_group_norm(input, weight, bias, N, C, HxW, group, eps): out, mean and rstd of [N, group]
Normalised group_norm_of(Call& call, const std::optional<Ref>& weight, const std::optional<Ref>& bias, int64_t groups,
                         double eps) {
  const Ref x = call.tensor(0);
  if (x.sizes.size() < 2) call.refuse("at least 2 dimensions");
  const Size channels = x.sizes[1];
  const auto c = channels.constant();
  if (!c || groups < 1 || *c % groups != 0) call.refuse("{} channels in {} groups", channels.text(), groups);
  const std::vector<Size> split{groups, *c / groups};
  const Ref grouped = unflattened(x, 1, split);
  std::vector<int32_t> over;
  for (size_t d = 2; d < grouped.sizes.size(); ++d) over.push_back(static_cast<int32_t>(d));
  const auto by_group = [&](const std::optional<Ref>& vector) -> std::optional<Ref> {
    if (!vector) return vector;
    if (vector->sizes.size() != 1 || !(vector->sizes[0] == channels))
      call.refuse("weight and bias have one element per channel");
    return per_channel(unflattened(*vector, 0, split), x.sizes.size() - 2);
  };
  Normalised n = normalise(call, grouped, over, by_group(weight), by_group(bias), eps);
  n.out = reshaped(call, n.out, x.sizes);
  // Of [N, group], and in the type of the input: unlike layer norm's, which torch keeps in f32.
  const auto flat = [&](Ref r) {
    for (size_t i = over.size(); i-- > 0;) r = squeezed(r, over[i]);
    return r;
  };
  n.mean = as_type(call, flat(n.mean), call.type(x));
  n.deviation = as_type(call, flat(n.deviation), call.type(x));
  return n;
}
std::vector<Arg> native_group_norm(Call& call) {
  const Normalised n =
      group_norm_of(call, call.maybe_tensor(1), call.maybe_tensor(2), call.constant(6), call.number(7));
  return {n.out, n.mean, n.deviation};
}
/// group_norm(input, num_groups, weight, bias, eps)
std::vector<Arg> group_norm(Call& call) {
  return {
      group_norm_of(call, call.maybe_tensor(2), call.maybe_tensor(3), call.constant(1), call.number_or(4, 1e-5)).out};
}

/// _fused_rms_norm(input, normalized_shape, weight, eps): x / sqrt(mean(x^2) + eps) x weight, rstd
std::vector<Arg> fused_rms_norm(Call& call) {
  const Ref x = call.tensor(0);
  check_floats(call, x);
  const std::vector<int32_t> over = normalized_dims(call, x, call.integers(1));
  if (!call.has(3) && call.type(x) != HostType::f32) call.refuse("give eps: the default differs between types");
  const double eps = call.number_or(3, std::numeric_limits<float>::epsilon());
  Size count = 1;
  for (int32_t d : over) count = count * x.sizes[static_cast<size_t>(d)];
  Points p(call, x.sizes);
  Expr squared = x1(VecOp::square, p.read(x));
  const Ref sum = p.reduce(Monoid::sum, over, std::move(squared), {HostType::f32})[0];
  const Ref deviation = keep_dims(inverse_deviation(call, sum, count, eps), over);
  Points q(call, x.sizes);
  Expr e = x2(VecOp::mul, q.read(x), q.read(deviation));
  e = scaled(q, std::move(e), call.maybe_tensor(2), std::nullopt);
  return {q.map(std::move(e), call.type(x)), deviation};
}
std::vector<Arg> rms_norm(Call& call) { return {fused_rms_norm(call)[0]}; }

/// _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps): out and two
/// empty tensors
std::vector<Arg> batch_norm(Call& call) {
  const Ref x = call.tensor(0);
  check_floats(call, x);
  if (x.sizes.size() < 2) call.refuse("at least 2 dimensions");
  const size_t after = x.sizes.size() - 2;
  Points p(call, x.sizes);
  Expr deviation = x1(VecOp::rsqrt,
                      x2(VecOp::add, p.read(*per_channel(call.tensor(4), after), Reg::f32), Expr::f32(call.number(6))));
  Expr e = x2(VecOp::sub, p.read(x), p.read(*per_channel(call.tensor(3), after), Reg::f32));
  e = scaled(p, x2(VecOp::mul, std::move(e), std::move(deviation)), per_channel(call.maybe_tensor(1), after),
             per_channel(call.maybe_tensor(2), after));
  const auto nothing = [&] {
    Points q(call, {0});
    return q.map(Expr::f32(0), HostType::f32);
  };
  Ref out = p.elementwise(std::move(e), call.type(x));
  return {out, nothing(), nothing()};
}

constexpr ImportEntry norm_entries[] = {
    {"aten::_softmax", softmax_half<SoftmaxKind::plain>},
    {"aten::_log_softmax", softmax_half<SoftmaxKind::log>},
    {"aten::softmax.int", softmax_typed<SoftmaxKind::plain>},
    {"aten::log_softmax.int", softmax_typed<SoftmaxKind::log>},
    {"aten::_safe_softmax", softmax_typed<SoftmaxKind::safe>},
    {"aten::native_layer_norm", native_layer_norm},
    {"aten::layer_norm", layer_norm},
    {"aten::native_group_norm", native_group_norm},
    {"aten::group_norm", group_norm},
    {"aten::_fused_rms_norm", fused_rms_norm},
    {"aten::rms_norm", rms_norm},
    {"aten::_native_batch_norm_legit_no_training", batch_norm},
};

}  // namespace

std::span<const ImportEntry> norm_imports() { return norm_entries; }

}  // namespace spyre::graph
