// For tests: small devices, and host values.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "device/description.h"
#include "runtime/copies.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace spyre::runtime {

/// Work long enough for the stream's thread.
constexpr WorkInfo big{"big", WorkKind::other, 1'000'000, false};

/// The built-in card with segments of 16 MiB: 112 MiB of memory, 16 MiB for programs.
inline device::Description small_description() {
  device::Description d = device::load_description();
  d.segments = 8;
  d.segment_bytes = 16 << 20;
  d.address_space_bytes = d.segments * d.segment_bytes;
  d.memory_bytes = 7 * d.segment_bytes;
  return d;
}

/// While it lives, new devices place tensors as SPYRE_LAYOUT = `value` says (null: unset).
class LayoutOption {
 public:
  explicit LayoutOption(const char* value) {
    if (const char* const now = std::getenv("SPYRE_LAYOUT")) before_ = now;
    value ? setenv("SPYRE_LAYOUT", value, 1) : unsetenv("SPYRE_LAYOUT");
  }
  ~LayoutOption() { before_ ? setenv("SPYRE_LAYOUT", before_->c_str(), 1) : unsetenv("SPYRE_LAYOUT"); }

 private:
  std::optional<std::string> before_;
};

/// A typed tensor of its own, contiguous.
struct TestTensor {
  TestTensor(Device& device, std::vector<int64_t> sizes, base::HostType t, Stream* stream = nullptr)
      : type(t), view(layout::HostView::contiguous(std::move(sizes))) {
    const auto placement = Placement::of(view.sizes, view.strides, type, false);
    allocation = device.allocator().allocate_typed(view.numel() * base::host_bytes(type),
                                                   stream ? *stream : device.default_stream(), placement);
  }
  DeviceTensor tensor() const { return {allocation.get(), type, view}; }
  DeviceTensor tensor(layout::HostView v) const { return {allocation.get(), type, std::move(v)}; }

  base::HostType type;
  layout::HostView view;
  AllocationPtr allocation;
};

template <typename T>
base::HostType host_type_of() {
  if constexpr (std::is_same_v<T, float>) return base::HostType::f32;
  if constexpr (std::is_same_v<T, int64_t>) return base::HostType::i64;
  if constexpr (std::is_same_v<T, int32_t>) return base::HostType::i32;
  if constexpr (std::is_same_v<T, int16_t>) return base::HostType::i16;
  if constexpr (std::is_same_v<T, int8_t>) return base::HostType::i8;
  return base::HostType::u8;
}

template <typename T>
HostTensor host_tensor(std::vector<T>& values, layout::HostView view) {
  return {values.data(), host_type_of<T>(), std::move(view)};
}

template <typename T>
void put(const std::vector<T>& values, const DeviceTensor& to, Stream& stream) {
  std::vector<T> copy = values;
  copy_to_device(host_tensor(copy, layout::HostView::contiguous(to.view.sizes)), to, stream);
}

/// The elements of a device view in row-major order.
template <typename T>
std::vector<T> get(const DeviceTensor& from, Stream& stream) {
  std::vector<T> values(static_cast<size_t>(from.view.numel()));
  copy_to_host(from, host_tensor(values, layout::HostView::contiguous(from.view.sizes)), stream);
  return values;
}

template <typename T>
std::vector<T> counting(int64_t n, T first = 0) {
  std::vector<T> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace spyre::runtime
