// The backward of RMS normalisation. torch differentiates the fused form for every device that has a kernel for it, and
// the CPU, where the fallback would take it, has none: here it is composed of ops that have one.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>
#include <vector>

namespace spyre::torch {
namespace {

using at::Tensor;

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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_fused_rms_norm_backward", spyre::torch::rms_norm_backward); }
