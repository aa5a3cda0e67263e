// The ATen kernels that know about memory: making, viewing, resizing, copying, filling. All other ops are
// fallback.cc's.
#include <ATen/EmptyTensor.h>
#include <ATen/Scalar.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/util/strides.h>
#include <torch/library.h>

#include <array>
#include <cstring>

#include "runtime/copies.h"
#include "torch/copy.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

using at::IntArrayRef;
using at::Tensor;

c10::Device checked_device(std::optional<c10::Device> device, std::optional<c10::Layout> layout,
                           std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout || *layout == c10::kStrided, "the spyre device holds strided tensors only, not ", *layout,
              ": convert with to_dense()");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  return complete(device.value_or(c10::Device(device_type)));
}

Tensor empty_memory_format(IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<c10::Layout> layout,
                           std::optional<c10::Device> device, std::optional<bool> pin_memory,
                           std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(sizes);
  const c10::Device where = checked_device(device, layout, pin_memory);
  c10::SmallVector<int64_t, 5> strides = c10::contiguous_strides(sizes);
  const auto wanted = format.value_or(c10::MemoryFormat::Contiguous);
  if (wanted == c10::MemoryFormat::ChannelsLast) {
    TORCH_CHECK(sizes.size() == 4, "required rank 4 tensor to use channels_last format");
    strides = c10::SmallVector<int64_t, 5>(IntArrayRef(c10::get_channels_last_strides_2d(sizes)));
  } else if (wanted == c10::MemoryFormat::ChannelsLast3d) {
    TORCH_CHECK(sizes.size() == 5, "required rank 5 tensor to use channels_last_3d format");
    strides = c10::SmallVector<int64_t, 5>(IntArrayRef(c10::get_channels_last_strides_3d(sizes)));
  } else {
    TORCH_CHECK(wanted == c10::MemoryFormat::Contiguous, "unsupported memory format ", wanted, " for an empty tensor");
  }
  return new_tensor(sizes, strides, c10::dtype_or_default(type), where);
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                     std::optional<bool> pin_memory) {
  at::detail::check_size_nonnegative(sizes);
  TORCH_CHECK(sizes.size() == strides.size(), "dimensionality of sizes (", sizes.size(),
              ") must match dimensionality of strides (", strides.size(), ")");
  return new_tensor(sizes, strides, c10::dtype_or_default(type), checked_device(device, layout, pin_memory));
}

const Tensor& resize_(const Tensor& self, IntArrayRef sizes, std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(sizes);
  if (self.sizes() != sizes || self.numel() == 0) resize_strided(self, sizes, c10::contiguous_strides(sizes));
  if (format && *format != c10::MemoryFormat::Contiguous) {
    TORCH_CHECK(*format != c10::MemoryFormat::Preserve, "Unsupported memory format ", *format);
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return self;
}

Tensor& set_storage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef sizes, IntArrayRef strides) {
  at::native::checkSetStorage<int64_t>(self, std::move(source), offset, sizes, strides);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  const auto contiguous = c10::contiguous_strides(sizes);
  resize_strided(self, sizes, strides.data() ? strides : IntArrayRef(contiguous));
  return self;
}

Tensor& set_empty(Tensor& self) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                       c10::DataPtr(nullptr, self.device()), device_allocator(), true);
  return set_storage(self, at::Storage(std::move(storage)), 0, {0}, {});
}

Tensor no_complex_view(const Tensor& self) {
  TORCH_CHECK_TYPE(false, "the spyre device has no complex numbers: view a ", self.scalar_type(),
                   " tensor as complex (or back) on the CPU");
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& to) {
  if (self.sizes() != to.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar_dense(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "expected a tensor with one element, not ", self.sizes());
  const Tensor host = at::empty({}, self.options().device(at::kCPU));
  copy_from(self.dim() == 0 ? self : self.view(IntArrayRef()), host, false);
  return host.item();
}

/// One element as the host holds it; raises, as torch's own fill does, when `value` is outside the type.
std::array<std::byte, 8> element_bytes(at::ScalarType type, const at::Scalar& value) {
  std::array<std::byte, 8> bytes{};
  const auto put = [&bytes](auto element) { std::memcpy(bytes.data(), &element, sizeof element); };
  switch (type) {
    case at::kHalf:
      put(value.to<at::Half>());
      break;
    case at::kBFloat16:
      put(value.to<at::BFloat16>());
      break;
    case at::kFloat8_e4m3fn:
      put(value.to<at::Float8_e4m3fn>());
      break;
    case at::kFloat8_e5m2:
      put(value.to<at::Float8_e5m2>());
      break;
    case at::kFloat:
      put(value.to<float>());
      break;
    case at::kDouble:
      put(value.to<double>());
      break;
    case at::kBool:
      put(value.to<bool>());
      break;
    case at::kByte:
      put(value.to<uint8_t>());
      break;
    case at::kChar:
      put(value.to<int8_t>());
      break;
    case at::kShort:
      put(value.to<int16_t>());
      break;
    case at::kInt:
      put(value.to<int32_t>());
      break;
    case at::kLong:
      put(value.to<int64_t>());
      break;
    default:
      TORCH_CHECK_TYPE(false, "fill_: the spyre device has no format for ", type);
  }
  return bytes;
}

Tensor& fill_scalar(Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) return self;
  const std::array<std::byte, 8> element = element_bytes(self.scalar_type(), value);
  translated([&] { runtime::fill(device_tensor(self, false), element.data(), current_stream(self.device().index())); });
  return self;
}
Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
              " dimensions.");
  return fill_scalar(self, value.item());
}
Tensor& zero_(Tensor& self) { return fill_scalar(self, 0); }

void record_stream(Tensor& self, c10::Stream stream) {
  if (self.numel() > 0)
    translated([&] { allocation_of(*self.storage().unsafeGetStorageImpl()).note_use(runtime_stream(stream)); });
}

/// What the device's own attention takes: no dropout, no gradients, heads of k and v in groups of q's.
bool is_inference_attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                            double dropout, bool grouped) {
  const bool learns = q.requires_grad() || k.requires_grad() || v.requires_grad() || (mask && mask->requires_grad());
  if (dropout != 0 || (learns && at::GradMode::is_enabled())) return false;
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4) return false;
  const at::ScalarType type = q.scalar_type();
  if ((type != at::kHalf && type != at::kBFloat16 && type != at::kFloat) || k.scalar_type() != type ||
      v.scalar_type() != type)
    return false;
  if (q.sym_numel() == 0 || k.sym_numel() == 0 || v.sym_numel() == 0) return false;
  if (q.sym_size(0) != k.sym_size(0) || q.sym_size(0) != v.sym_size(0) || q.sym_size(3) != k.sym_size(3) ||
      k.sym_size(2) != v.sym_size(2) || k.sym_size(1) != v.sym_size(1))
    return false;
  if (q.sym_size(1) != k.sym_size(1) && (!grouped || q.sym_size(1) % k.sym_size(1) != 0)) return false;
  return !mask || !mask->defined() || (mask->dim() >= 2 && mask->dim() <= 4);
}

int64_t sdp_choice(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, double dropout,
                   bool, std::optional<double>, bool grouped) {
  const bool whole = is_inference_attention(q, k, v, mask, dropout, grouped);
  return static_cast<int64_t>(whole ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

}  // namespace
}  // namespace spyre::torch

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &::spyre::torch::sdp_choice)
}  // namespace at::native

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using namespace spyre::torch;
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("is_set_to", at::native::is_set_to);
  m.impl("resize_", resize_);
  m.impl("set_", set_empty);
  m.impl("set_.source_Storage", static_cast<Tensor& (*)(Tensor&, at::Storage)>(&at::native::set_));
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("view_as_real", no_complex_view);
  m.impl("view_as_complex", no_complex_view);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("fill_.Scalar", fill_scalar);
  m.impl("fill_.Tensor", fill_tensor);
  m.impl("zero_", zero_);
  m.impl("record_stream", record_stream);
  m.impl("_fused_sdp_choice", sdp_choice);
}
