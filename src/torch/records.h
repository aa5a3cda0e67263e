// From torch's tensors and storages to the runtime's allocations, and their making, growing and retyping.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

#include "layout/spyre_tensor_layout.h"
#include "runtime/copies.h"
#include "runtime/memory.h"
#include "torch/state.h"

namespace spyre::torch {

/// The device's word for a torch dtype. Throws for one that the device has no format for, with the advice to cast;
/// float64 is let through when `numel` <= 1 (kept as raw bytes: GradScaler makes such a tensor).
base::HostType host_type(at::ScalarType type, int64_t numel);
/// SPYRE_NUMERICS=ieee.
bool ieee_numerics();

/// The allocator that torch sees; static lifetime.
c10::Allocator* device_allocator();
/// A DataPtr that owns `allocation`. Null for no bytes.
c10::DataPtr data_ptr_of(const runtime::AllocationPtr& allocation, c10::DeviceIndex index);

/// A new tensor of these sizes and strides (elements), its memory typed by the default placement.
at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, c10::Device device);
/// The same with memory laid out by `layout`.
at::Tensor new_tensor_with_layout(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                                  c10::Device device, const layout::SpyreTensorLayout& layout);

/// The allocation of a storage: fast through the deleter, or by address for foreign DataPtrs. Throws when there is
/// none.
runtime::Allocation& allocation_of(const c10::StorageImpl& storage);
struct Memory {
  uint64_t serial = 0;
  int64_t storage_byte = 0;  ///< where the storage starts in the allocation
};
/// Where a tensor with elements is.
Memory memory_of(const at::Tensor& tensor);
/// uint8 tensor over all logical bytes of the tensor's allocation, from its storage's start on.
at::Tensor whole_memory_bytes(const at::Tensor& tensor);

/// What the runtime's copies take: for a tensor with elements. `read`: a raw allocation is first made typed (the first
/// typed use), except for uint8, int64 (its bytes may not be values yet) and float64.
runtime::DeviceTensor device_tensor(const at::Tensor& tensor, bool read);
/// Makes the allocation typed by the tensor's dtype, whatever it was.
runtime::Allocation& typed_allocation(const at::Tensor& tensor);

/// Where a tensor starts in its allocation, in elements. Throws when that is no multiple of its element size.
int64_t first_element(const at::Tensor& tensor, const runtime::Allocation& allocation);

/// The layout of the allocation behind a tensor. Throws for a tensor without memory.
layout::SpyreTensorLayout tensor_layout(const at::Tensor& tensor);
/// Moves the elements of the allocation to another layout. The tensor must cover its allocation.
void set_tensor_layout(const at::Tensor& tensor, const layout::SpyreTensorLayout& layout);

/// Grows or shrinks a storage, keeping its bytes.
void resize_storage(c10::StorageImpl& storage, int64_t nbytes, c10::DeviceIndex index);
/// Gives a tensor these sizes and strides (elements), growing its storage as needed.
void resize_strided(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace spyre::torch
