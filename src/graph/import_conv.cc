// Convolution: a Contract whose first operand is read by overlapping windows of the padded input. Pooling: reductions
// over such windows.
#include <limits>

#include "graph/import_call.h"
#include "graph/views.h"

namespace spyre::graph {
namespace {

using Role = Contract::Role;

/// One number per spatial dimension; a single one counts for all, none is `otherwise`.
std::vector<int64_t> spatial(const Call& call, size_t i, size_t count, int64_t otherwise) {
  std::vector<int64_t> out = call.constants(i);
  if (out.empty()) out.assign(1, otherwise);
  if (out.size() == 1) out.resize(count, out[0]);
  if (out.size() != count) call.refuse("argument {} has {} numbers for {} spatial dimensions", i, out.size(), count);
  return out;
}

/// The input with `padding` on both sides of its last dimensions.
Ref padded_by(Call& call, const Ref& x, const std::vector<int64_t>& padding, double fill) {
  std::vector<Size> around(x.sizes.size(), 0);
  bool any = false;
  for (size_t d = 0; d < padding.size(); ++d) {
    if (padding[d] < 0) call.refuse("padding {}", padding[d]);
    around[x.sizes.size() - padding.size() + d] = padding[d];
    any = any || padding[d] != 0;
  }
  return any ? padded(call, x, around, around, fill) : x;
}

/// Positions of a window of `kernel` elements, `dilation` apart, every `stride` elements.
Size positions(const Call& call, const Size& size, int64_t kernel, int64_t stride, int64_t dilation) {
  if (kernel < 1 || stride < 1 || dilation < 1)
    call.refuse("kernel {}, stride {}, dilation {}", kernel, stride, dilation);
  const Size room = size - (dilation * (kernel - 1) + 1);
  if (!call.at_most(0, room))
    call.refuse("a window of {} elements must be known to fit into {}", dilation * (kernel - 1) + 1, size.text());
  return Size::floor_div(room, stride) + 1;
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
std::vector<Arg> convolution(Call& call) {
  Ref x = call.tensor(0);
  const Ref w = call.tensor(1);
  const auto bias = call.maybe_tensor(2);
  const HostType type = call.type(x);
  if (!is_float(type) || !is_arithmetic(type)) call.refuse("this takes float16, bfloat16 or float32");
  if (call.type(w) != type || (bias && call.type(*bias) != type)) call.refuse("operands of two types: cast one");
  if (call.flag(6)) call.refuse("transposed convolution");
  const bool batched = x.sizes.size() == w.sizes.size();
  if (!batched) {
    if (x.sizes.size() + 1 != w.sizes.size()) call.refuse("input and weight have different numbers of dimensions");
    x = unsqueezed(x, 0);
  }
  if (w.sizes.size() < 3) call.refuse("at least 1 spatial dimension");
  const size_t dims = w.sizes.size() - 2;
  const std::vector<int64_t> stride = spatial(call, 3, dims, 1), padding = spatial(call, 4, dims, 0),
                             dilation = spatial(call, 5, dims, 1);
  const int64_t groups = call.constant_or(8, 1);
  const auto channels = x.sizes[1].constant(), outputs = w.sizes[0].constant();
  if (!channels || !outputs || groups < 1 || *channels % groups != 0 || *outputs % groups != 0)
    call.refuse("{} channels to {} in {} groups", x.sizes[1].text(), w.sizes[0].text(), groups);
  const int64_t in_group = *channels / groups, out_group = *outputs / groups;
  if (!w.sizes[1].is(in_group)) call.refuse("the weight has {} channels of {}", w.sizes[1].text(), in_group);
  x = padded_by(call, x, padding, 0);

  Contract node;
  std::vector<Size> a, b, sizes{x.sizes[0], *outputs};
  const auto dimension = [&](const Size& size, Role role, const Size& stride_a, const Size& stride_b) {
    node.space.push_back(size);
    node.roles.push_back(role);
    a.push_back(stride_a);
    b.push_back(stride_b);
  };
  dimension(x.sizes[0], Role::m, x.strides[0], 0);
  if (groups > 1) dimension(groups, Role::batch, x.strides[1] * Size(in_group), w.strides[0] * Size(out_group));
  dimension(out_group, Role::n, 0, w.strides[0]);
  for (size_t d = 0; d < dims; ++d) {
    const auto kernel = w.sizes[2 + d].constant();
    if (!kernel) call.refuse("the kernel must have the same size always");
    const Size count = positions(call, x.sizes[2 + d], *kernel, stride[d], dilation[d]);
    dimension(count, Role::m, x.strides[2 + d] * Size(stride[d]), 0);
    sizes.push_back(count);
  }
  dimension(in_group, Role::k, x.strides[1], w.strides[1]);
  for (size_t d = 0; d < dims; ++d)
    dimension(w.sizes[2 + d], Role::k, x.strides[2 + d] * Size(dilation[d]), w.strides[2 + d]);
  node.a = {{x.value, node.space, std::move(a), x.offset}, {}, 0};
  node.b = {{w.value, node.space, std::move(b), w.offset}, {}, 0};
  Ref out = reshaped(call, call.add(std::move(node), {bias ? HostType::f32 : type})[0], sizes);
  if (bias) {
    if (bias->sizes.size() != 1 || !bias->sizes[0].is(*outputs))
      call.refuse("the bias has one element per output channel");
    Ref per_channel = *bias;
    for (size_t d = 0; d < dims; ++d)
      per_channel = unsqueezed(per_channel, static_cast<int32_t>(per_channel.sizes.size()));
    Points p(call, sizes);
    Expr e = x2(VecOp::add, p.read(out), p.read(per_channel, Reg::f32));
    out = p.map(std::move(e), type);
  }
  return {batched ? out : squeezed(out, 0)};
}

/// conv1d(input, weight, bias, stride, padding, dilation, groups) and its sisters
std::vector<Arg> conv(Call& call) {
  const std::vector<Arg> args{call.at(0), call.at(1), call.at(2),       call.at(3), call.at(4),
                              call.at(5), false,      std::monostate(), call.at(6)};
  Call full(call.builder, call.overload, args, call.loc());
  return convolution(full);
}

/// The windows of the last two dimensions of [.., H, W] as [.., OH, OW, KH, KW].
Ref pooled(Call& call, const Ref& x, const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
           const std::vector<int64_t>& dilation) {
  Ref out = x;
  const size_t first = x.sizes.size() - kernel.size();
  for (size_t d = 0; d < kernel.size(); ++d) {
    out.sizes[first + d] = positions(call, x.sizes[first + d], kernel[d], stride[d], dilation[d]);
    out.strides[first + d] = x.strides[first + d] * Size(stride[d]);
    out.sizes.push_back(kernel[d]);
    out.strides.push_back(x.strides[first + d] * Size(dilation[d]));
  }
  return out;
}

/// avg_pool2d(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
std::vector<Arg> avg_pool2d(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  if (!is_float(type) || !is_arithmetic(type) || x.sizes.size() < 3) call.refuse("this takes images of floats");
  const std::vector<int64_t> kernel = spatial(call, 1, 2, 1), padding = spatial(call, 3, 2, 0);
  const std::vector<int64_t> stride = call.integers(2).empty() ? kernel : spatial(call, 2, 2, 1);
  const bool pads = padding[0] != 0 || padding[1] != 0;
  if (call.flag(4) || (pads && call.has(5) && !call.flag(5))) call.refuse("ceil_mode, and padding that is not counted");
  const Ref windowed = pooled(call, padded_by(call, x, padding, 0), kernel, stride, {1, 1});
  const auto rank = static_cast<int32_t>(windowed.sizes.size());
  Points p(call, windowed.sizes);
  Expr value = p.read(windowed);
  const Ref sum = p.reduce(Monoid::sum, {rank - 2, rank - 1}, std::move(value), {HostType::f32})[0];
  const double divisor = call.has(6) ? call.number(6) : static_cast<double>(kernel[0] * kernel[1]);
  Points q(call, sum.sizes);
  Expr e = x2(VecOp::div, q.read(sum), Expr::f32(divisor));
  return {q.map(std::move(e), type)};
}

/// max_pool2d(self, kernel, stride, padding, dilation, ceil_mode)
std::vector<Arg> max_pool2d(Call& call) {
  const Ref x = call.tensor(0);
  const HostType type = call.type(x);
  if (!is_float(type) || !is_arithmetic(type) || x.sizes.size() < 3) call.refuse("this takes images of floats");
  const std::vector<int64_t> kernel = spatial(call, 1, 2, 1), padding = spatial(call, 3, 2, 0),
                             dilation = spatial(call, 4, 2, 1);
  const std::vector<int64_t> stride = call.integers(2).empty() ? kernel : spatial(call, 2, 2, 1);
  if (call.flag(5)) call.refuse("ceil_mode");
  const Ref windowed =
      pooled(call, padded_by(call, x, padding, -std::numeric_limits<double>::infinity()), kernel, stride, dilation);
  const auto rank = static_cast<int32_t>(windowed.sizes.size());
  Points p(call, windowed.sizes);
  Expr value = p.read(windowed);
  return {p.reduce(Monoid::max, {rank - 2, rank - 1}, std::move(value), {type})[0]};
}

constexpr ImportEntry convolution_entries[] = {
    {"aten::convolution", convolution},
    {"aten::convolution_overrideable", convolution},
    {"aten::conv1d", conv},
    {"aten::conv2d", conv},
    {"aten::conv3d", conv},
    {"aten::avg_pool2d", avg_pool2d},
    {"aten::max_pool2d", max_pool2d},
};

}  // namespace

std::span<const ImportEntry> convolution_imports() { return convolution_entries; }

}  // namespace spyre::graph
