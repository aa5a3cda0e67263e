// Ops that torch fuses where a device has a kernel for them, and that the CPU, where the fallback would take them, does
// not have: LSTM and GRU cells (chosen for every out-of-tree device) and the backward of RMS normalisation. Composed
// here of ops that exist.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace spyre::torch {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const MaybeTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}
Tensor sigmoid_slope(const Tensor& y) { return y * (1 - y); }
Tensor tanh_slope(const Tensor& y) { return 1 - y * y; }
Tensor bias_gradient(const Tensor& gates, bool has_bias) { return has_bias ? gates.sum(0) : Tensor(); }

/// Gates [batch, 4 hidden] in the order input, forget, cell, output. The workspace holds them activated.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(),
               output = gates[3].sigmoid();
  const Tensor cy = forget * cx + input * cell;
  return {output * cy.tanh(), cy, at::cat({input, forget, cell, output}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  const bool hy = grad_hy && grad_hy->defined(), has_cy = grad_cy && grad_cy->defined();
  if (!hy && !has_cy) return {Tensor(), Tensor(), Tensor()};
  const auto gates = workspace.chunk(4, 1);
  const Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  const Tensor shown = cy.tanh();
  const Tensor gh = hy ? *grad_hy : at::zeros_like(cy);
  Tensor gc = gh * output * tanh_slope(shown);
  if (has_cy) gc = gc + *grad_cy;
  const Tensor grad_gates = at::cat({gc * cell * sigmoid_slope(input), gc * cx * sigmoid_slope(forget),
                                     gc * input * tanh_slope(cell), gh * shown * sigmoid_slope(output)},
                                    1);
  return {grad_gates, gc * forget, bias_gradient(grad_gates, has_bias)};
}

/// Gates [batch, 3 hidden] in the order reset, update, new. The workspace holds reset, update, new, hx and the hidden
/// part of new.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto in = with_bias(input_gates, input_bias).chunk(3, 1),
             hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3], &hidden_new = saved[4];
  const Tensor g_new = grad_hy * (1 - update) * tanh_slope(fresh),
               g_update = grad_hy * (hx - fresh) * sigmoid_slope(update);
  const Tensor g_reset = g_new * hidden_new * sigmoid_slope(reset);
  const Tensor g_in = at::cat({g_reset, g_update, g_new}, 1), g_hidden = at::cat({g_reset, g_update, g_new * reset}, 1);
  return {g_in, g_hidden, grad_hy * update, bias_gradient(g_in, has_bias), bias_gradient(g_hidden, has_bias)};
}

/// y = x rstd w over the last dimensions. In float32 for the 16-bit floats, as torch does.
std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, at::IntArrayRef normalized_shape,
                                             const Tensor& rstd, const std::optional<Tensor>& weight,
                                             std::array<bool, 2> wanted) {
  const int64_t inner = static_cast<int64_t>(normalized_shape.size()), outer = input.dim() - inner;
  TORCH_CHECK(inner > 0 && outer >= 0, "_fused_rms_norm_backward: ", input.sizes(),
              " has no trailing dimensions of sizes ", normalized_shape);
  std::vector<int64_t> outer_dims, inner_dims;
  for (int64_t d = 0; d < input.dim(); ++d) (d < outer ? outer_dims : inner_dims).push_back(d);
  const bool weighted = weight && weight->defined();
  const Tensor g = grad.to(at::kFloat), x = input.to(at::kFloat);
  std::vector<int64_t> rstd_sizes = input.sizes().slice(0, static_cast<size_t>(outer)).vec();
  rstd_sizes.resize(static_cast<size_t>(input.dim()), 1);
  const Tensor scale = rstd.to(at::kFloat).reshape(rstd_sizes), normal = x * scale;
  Tensor grad_input, grad_weight;
  if (wanted[0]) {
    const Tensor gw = weighted ? g * weight->to(at::kFloat) : g;
    grad_input = (scale * (gw - normal * (gw * normal).mean(inner_dims, true))).to(input.scalar_type());
  }
  if (wanted[1] && weighted) {
    const Tensor each = g * normal;
    grad_weight = (outer > 0 ? each.sum(outer_dims) : each).to(weight->scalar_type());
  }
  return {grad_input, grad_weight};
}

}  // namespace
}  // namespace spyre::torch

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", spyre::torch::lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", spyre::torch::lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", spyre::torch::gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", spyre::torch::gru_cell_backward);
  m.impl("_fused_rms_norm_backward", spyre::torch::rms_norm_backward);
}
