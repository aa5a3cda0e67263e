// LSTM and GRU cells. torch chooses the fused form for every out-of-tree device, and the CPU, where the fallback would
// take it, has no kernel for that form: here it is composed of ops that have one.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

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

}  // namespace
}  // namespace spyre::torch

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", spyre::torch::lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", spyre::torch::lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", spyre::torch::gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", spyre::torch::gru_cell_backward);
}
