#include "torch/state.h"

#include <map>

#include "base/env.h"

namespace spyre::torch {
namespace {

c10::DeviceIndex first_device() {
  // A launcher numbers the processes of a host; one that gives each process its own SPYRE_DEVICES leaves only index 0.
  const int64_t rank = base::env_int("LOCAL_RANK", 0, 0, 1 << 20);
  return rank < runtime::device_count() ? static_cast<c10::DeviceIndex>(rank) : c10::DeviceIndex{0};
}

thread_local c10::DeviceIndex current_index = -1;
thread_local std::map<c10::DeviceIndex, int64_t> current_streams;  // default stream when absent

c10::DeviceIndex index_now() {
  if (current_index < 0) current_index = translated(first_device);
  return current_index;
}

}  // namespace

c10::Device current_device() { return {device_type, index_now()}; }

void set_current_device(c10::DeviceIndex index) {
  const int count = runtime::device_count();
  if (index < 0 || index >= count) translated([&] { runtime::check_process(); });
  TORCH_CHECK(index >= 0 && index < count, "spyre device ", static_cast<int>(index),
              " does not exist: this process sees ", count, " (SPYRE_DEVICES lists them, as \"0,1\")");
  current_index = index;
}

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const c10::DeviceIndex before = index_now();
  if (index != before) set_current_device(index);
  return before;
}

c10::Device complete(c10::Device device) {
  TORCH_CHECK(device.type() == device_type, "expected a spyre device, not ", device);
  if (!device.has_index()) return current_device();
  const int count = runtime::device_count();
  TORCH_CHECK(device.index() >= 0 && device.index() < count, "spyre device ", static_cast<int>(device.index()),
              " does not exist: this process sees ", count, " (SPYRE_DEVICES lists them, as \"0,1\")");
  return device;
}

runtime::Device& runtime_device(c10::DeviceIndex index) {
  return translated([&]() -> runtime::Device& { return runtime::device(index < 0 ? index_now() : index); });
}

int64_t current_stream_id(c10::DeviceIndex index) {
  const auto found = current_streams.find(index < 0 ? index_now() : index);
  return found == current_streams.end() ? 0 : found->second;
}

runtime::Stream& current_stream(c10::DeviceIndex index) {
  runtime::Device& device = runtime_device(index);
  const int64_t id = current_streams.empty() ? 0 : current_stream_id(static_cast<c10::DeviceIndex>(device.index()));
  return id == 0 ? device.default_stream() : translated([&]() -> runtime::Stream& { return device.stream(id); });
}

runtime::Stream& runtime_stream(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == device_type, "expected a spyre stream, not ", stream);
  runtime::Device& device = runtime_device(stream.device_index());
  return translated([&]() -> runtime::Stream& { return device.stream(stream.id()); });
}

c10::Stream torch_stream(runtime::Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE,
                     c10::Device(device_type, static_cast<c10::DeviceIndex>(stream.device().index())), stream.id());
}

int64_t exchange_stream(c10::DeviceIndex index, int64_t id) {
  if (index < 0) index = index_now();
  if (id != 0) translated([&] { runtime::device(index).stream(id); });
  const int64_t before = current_stream_id(index);
  if (id == 0) {
    current_streams.erase(index);
  } else {
    current_streams[index] = id;
  }
  return before;
}

void rethrow(const Error& error) {
  if (error.fault() == Fault::out_of_memory) C10_THROW_ERROR(OutOfMemoryError, error.what());
  if (error.fault() == Fault::unimplemented) C10_THROW_ERROR(NotImplementedError, error.what());
  C10_THROW_ERROR(Error, error.what());
}

}  // namespace spyre::torch
