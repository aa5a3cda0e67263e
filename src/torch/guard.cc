// Devices, streams and events for torch's device-generic code, and the hooks it calls for the rest.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "runtime/pinned.h"
#include "torch/generator.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return device_type; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {device_type, exchange_device(complete(device).index())};
  }
  c10::Device getDevice() const override { return current_device(); }
  void setDevice(c10::Device device) const override { set_current_device(complete(device).index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0 && device.index() < runtime::device_count()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(runtime::device_count());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    for (const auto kind : {c10::kIndex_Byte, c10::kIndex_Char, c10::kIndex_Short, c10::kIndex_Int, c10::kIndex_Long,
                            c10::kIndex_Half, c10::kIndex_Float, c10::kIndex_Bool, c10::kIndex_BFloat16,
                            c10::kIndex_Float8_e5m2, c10::kIndex_Float8_e4m3fn})
      capability.capability_data.capability_bits |= 1ULL << kind;
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    device = complete(device);
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream_id(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, complete(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return getNewStream(device, high_priority ? runtime::highest_priority : 0);
  }
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return torch_stream(translated(
        [&]() -> runtime::Stream& { return runtime_device(complete(device).index()).create_stream(priority); }));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Device device = complete(stream.device());
    return c10::Stream(c10::Stream::UNSAFE, device, exchange_stream(device.index(), stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return &runtime_stream(stream); }
  bool queryStream(const c10::Stream& stream) const override {
    return translated([&] { return runtime_stream(stream).query(); });
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    translated([&] { runtime_stream(stream).synchronize(); });
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    translated([&] { runtime_device(index).synchronize(); });
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    c10::getDeviceAllocator(device_type)->recordStream(data, stream);
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "event of spyre device ", static_cast<int>(index),
                " recorded on a stream of device ", static_cast<int>(stream.device_index()));
    translated([&] {
      if (!*event) *event = new runtime::Event();
      static_cast<runtime::Event*>(*event)->record(runtime_stream(stream));
    });
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) translated([&] { static_cast<runtime::Event*>(event)->block(runtime_stream(stream)); });
  }
  bool queryEvent(void* event) const override {
    return !event || translated([&] { return static_cast<runtime::Event*>(event)->query(); });
  }
  void synchronizeEvent(void* event) const override {
    if (event) translated([&] { static_cast<runtime::Event*>(event)->synchronize(); });
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<runtime::Event*>(event);
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "elapsed_time: both events must be recorded first");
    return translated(
        [&] { return static_cast<runtime::Event*>(start)->elapsed_ms(*static_cast<runtime::Event*>(end)); });
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return runtime::device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return runtime::started_device(index) != nullptr; }
  void init() const override { runtime_device(current_device().index()); }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(runtime::device_count()); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchange_device(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index < 0 ? current_device().index() : index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return new_generator(index < 0 ? current_device().index() : index);
  }
  at::Device getDeviceFromPtr(void* data) const override {
    const auto allocation = runtime::find(data);
    TORCH_CHECK(allocation, "address ", data, " is not memory of the spyre device");
    return {device_type, static_cast<c10::DeviceIndex>(allocation->device().index())};
  }
  bool isPinnedPtr(const void* data) const override { return data && runtime::is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getHostAllocator(device_type); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), static_cast<int64_t>(bytes), storage.device().index());
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks());
  return true;
}();

}  // namespace
}  // namespace spyre::torch
