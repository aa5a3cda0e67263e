// Copies: elements of any view on the host or a device to any view on a device or the host.
//
// Sizes of both sides must be equal (the caller expands); sources may have zero strides. A destination that holds one
// element twice is refused with Error(user). Elements outside the destination view keep their value, also those in the
// same stick. A view of another dtype than its allocation's reads through logical bytes, and a write makes the
// allocation raw first (runtime/transitions.h). Copies advance the stream's modelled clock by device bytes /
// host_transfer_gbps (host copies) or 2 x bytes / memory_gbps (device copies).
#pragma once

#include <cstdint>
#include <vector>

#include "base/formats.h"
#include "layout/geometry.h"
#include "runtime/memory.h"

namespace spyre::runtime {

/// Modelled time of a copy over the link to the host, and of one within the card's memory (read and written).
int64_t over_link_ps(const Device& device, int64_t bytes);
int64_t on_device_ps(const Device& device, int64_t bytes);

/// A strided host tensor. view.strides and view.offset are in elements from `data`.
struct HostTensor {
  void* data = nullptr;
  base::HostType type = base::HostType::f32;
  layout::HostView view;
};

/// A view of an allocation as `type`; view.strides and view.offset are in elements of `type` from the allocation's
/// start.
struct DeviceTensor {
  Allocation* allocation = nullptr;
  base::HostType type = base::HostType::f32;
  layout::HostView view;
};

/// Host to device; the dtypes must be equal (Error(user) else: cast on one side). Without non_blocking, or from memory
/// that isn't pinned, the source may be reused on return; conversion errors (int64 outside int32) are then thrown here.
/// non_blocking from pinned memory (runtime/pinned.h) only enqueues. The record should be typed first (make_typed); a
/// raw one takes the bytes.
void copy_to_device(const HostTensor& from, const DeviceTensor& to, Stream& stream, bool non_blocking = false);

/// Device to host. Waits for the data, except for non_blocking into pinned memory. Release the GIL around it.
void copy_to_host(const DeviceTensor& from, const HostTensor& to, Stream& stream, bool non_blocking = false);

/// Device to device, the same or another one, of any two dtypes: values are converted as `Tensor.to(dtype)` does on the
/// device (float to integer truncates, integers wrap to the width, to bool is "not zero"; a value outside int32 throws
/// for int64). Source and destination may overlap: the result is as if the source was read first. `stream` may belong
/// to either device; the other device's streams are the caller's to order (events).
void copy_on_device(const DeviceTensor& from, const DeviceTensor& to, Stream& stream);

/// Sets every element of the view to one host value of its dtype (host_bytes(to.type) bytes at `value`).
void fill(const DeviceTensor& to, const void* value, Stream& stream);

/// Throws Error(user) naming the view when two of its indices reach the same element.
void check_no_self_overlap(const layout::HostView& view, const char* what);

}  // namespace spyre::runtime
