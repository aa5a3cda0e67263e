// What this folder keeps per thread and process: the current device and streams, and how the runtime's errors become
// torch's.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include <utility>

#include "base/error.h"
#include "runtime/devices.h"
#include "runtime/streams.h"

namespace spyre::torch {

constexpr c10::DeviceType device_type = c10::DeviceType::PrivateUse1;

/// The current device of this thread; LOCAL_RANK names the first one. Starts nothing.
c10::Device current_device();
/// Throws c10::Error for an index that is no device. Starts nothing.
void set_current_device(c10::DeviceIndex index);
c10::DeviceIndex exchange_device(c10::DeviceIndex index);
/// `device` with its index filled in and checked.
c10::Device complete(c10::Device device);

/// The runtime's device; starts it. Throws in a forked child.
runtime::Device& runtime_device(c10::DeviceIndex index);
/// The current stream of this thread on a device.
runtime::Stream& current_stream(c10::DeviceIndex index);
runtime::Stream& runtime_stream(const c10::Stream& stream);
c10::Stream torch_stream(runtime::Stream& stream);
/// Id of the current stream; unlike current_stream() it starts nothing.
int64_t current_stream_id(c10::DeviceIndex index);
/// Makes it current for its device; returns the id of the one before.
int64_t exchange_stream(c10::DeviceIndex index, int64_t id);

/// Throws `error` as torch's exception: OutOfMemoryError, NotImplementedError or Error.
[[noreturn]] void rethrow(const Error& error);

/// Calls `body`; what the layers below throw arrives as torch's exception.
template <typename Body>
auto translated(Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    rethrow(error);
  }
}

}  // namespace spyre::torch
