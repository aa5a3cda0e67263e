#include "torch/records.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

#include <mutex>
#include <unordered_map>

#include "base/env.h"
#include "base/hash.h"
#include "layout/geometry.h"
#include "runtime/transitions.h"

namespace spyre::torch {
namespace {

using base::HostType;
using layout::Geometry;
using layout::SpyreTensorLayout;
using runtime::Allocation;
using runtime::Placement;
using runtime::PlacementPtr;

std::vector<int64_t> vec(at::IntArrayRef values) { return values.vec(); }

/// Default placements are asked for at every allocation and seldom differ: kept by (dtype, sizes, strides).
class PlacementCache {
 public:
  PlacementPtr get(at::IntArrayRef sizes, at::IntArrayRef strides, HostType type) {
    std::vector<int64_t> key;
    key.reserve(2 * sizes.size() + 1);
    key.push_back(static_cast<int64_t>(type));
    key.insert(key.end(), sizes.begin(), sizes.end());
    key.insert(key.end(), strides.begin(), strides.end());
    const std::lock_guard<std::mutex> lock(mutex_);
    if (table_.size() > 4096) table_.clear();
    PlacementPtr& entry = table_[std::move(key)];
    if (!entry) entry = Placement::of(vec(sizes), vec(strides), type, ieee_numerics());
    return entry;
  }

 private:
  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const {
      uint64_t h = 1469598103934665603ULL;
      for (const int64_t v : key) h = (h ^ static_cast<uint64_t>(v)) * 1099511628211ULL;
      return static_cast<size_t>(h ^ (h >> 32));
    }
  };
  std::mutex mutex_;
  std::unordered_map<std::vector<int64_t>, PlacementPtr, Hash> table_;
};

PlacementPtr default_placement(at::IntArrayRef sizes, at::IntArrayRef strides, HostType type) {
  static auto* cache = new PlacementCache();
  return cache->get(sizes, strides, type);
}

PlacementPtr placement_with(at::IntArrayRef sizes, at::IntArrayRef strides, HostType type,
                            const SpyreTensorLayout& layout) {
  const base::Format expected = base::device_format(type);
  TORCH_CHECK(layout::storage_format(layout.device_dtype()) == expected, "a ", std::string(base::host_name(type)),
              " tensor is held as ", std::string(base::format_name(expected)), " on the device; the layout ",
              layout.repr(), " is for another format");
  auto placement = std::make_shared<Placement>();
  placement->type = type;
  placement->geometry = Geometry::of(layout, vec(sizes), vec(strides));
  placement->geometry.format = base::device_format(type, ieee_numerics());  // of the same width
  placement->user_layout = layout;
  return placement;
}

bool whole(const at::Tensor& t, const Allocation& allocation, int64_t storage_byte) {
  return storage_byte == 0 && t.storage_offset() == 0 && t.is_non_overlapping_and_dense() &&
         static_cast<int64_t>(t.nbytes()) == allocation.logical_bytes();
}

/// The placement that a raw allocation gets when `t` is its first typed user.
PlacementPtr first_placement(const at::Tensor& t, const Allocation& allocation, int64_t storage_byte, HostType type) {
  if (whole(t, allocation, storage_byte)) return default_placement(t.sizes(), t.strides(), type);
  return Placement::linear(type, allocation.logical_bytes() / static_cast<int64_t>(t.itemsize()), ieee_numerics());
}

int64_t storage_byte_of(const c10::StorageImpl& storage, const Allocation& allocation) {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(storage.data()) -
                              static_cast<uintptr_t>(allocation.logical()));
}

int64_t storage_bytes(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
}

runtime::AllocationPtr allocate_for(at::IntArrayRef sizes, at::IntArrayRef strides, HostType type, int64_t nbytes,
                                    c10::DeviceIndex index) {
  runtime::Device& device = runtime_device(index);
  if (type == HostType::f64) return device.allocator().allocate(nbytes, current_stream(index));
  return device.allocator().allocate_typed(nbytes, current_stream(index), default_placement(sizes, strides, type));
}

at::Tensor wrap(c10::DataPtr data, int64_t nbytes, at::IntArrayRef sizes, at::IntArrayRef strides,
                at::ScalarType type) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes, std::move(data),
                                                       device_allocator(), true);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

}  // namespace

bool ieee_numerics() {
  static const bool ieee = [] {
    const std::string text = base::env_string("SPYRE_NUMERICS", "dl16");
    TORCH_CHECK(text == "dl16" || text == "ieee", "SPYRE_NUMERICS=", text, ": must be dl16 (the default) or ieee");
    return text == "ieee";
  }();
  return ieee;
}

HostType host_type(at::ScalarType type, int64_t numel) {
  switch (type) {
    case at::kHalf:
      return HostType::f16;
    case at::kBFloat16:
      return HostType::bf16;
    case at::kBool:
      return HostType::b8;
    case at::kByte:
      return HostType::u8;
    case at::kChar:
      return HostType::i8;
    case at::kShort:
      return HostType::i16;
    case at::kInt:
      return HostType::i32;
    case at::kLong:
      return HostType::i64;
    case at::kFloat:
      return HostType::f32;
    case at::kFloat8_e4m3fn:
      return HostType::e4m3;
    case at::kFloat8_e5m2:
      return HostType::e5m2;
    case at::kDouble:
      if (numel <= 1) return HostType::f64;
      TORCH_CHECK_TYPE(false,
                       "the spyre device has no float64: cast to torch.float32 first, as in x.float().to(\"spyre\")");
    case at::kComplexFloat:
    case at::kComplexDouble:
    case at::kComplexHalf:
      TORCH_CHECK_TYPE(false, "the spyre device has no complex numbers (", type,
                       "): keep them on the CPU, or store torch.view_as_real(x)");
    default:
      TORCH_CHECK_TYPE(false, "the spyre device has no format for ", type,
                       ": cast to one of float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, int64, int32, int16, "
                       "int8, uint8 or bool");
  }
}

c10::DataPtr data_ptr_of(const runtime::AllocationPtr& allocation, c10::DeviceIndex index) {
  return {allocation->data(), allocation->retain_context(), &Allocation::release_context,
          c10::Device(device_type, index)};
}

at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type, c10::Device device) {
  const HostType host = host_type(type, c10::multiply_integers(sizes));
  const int64_t nbytes = storage_bytes(sizes, strides, type);
  const c10::DeviceIndex index = complete(device).index();
  if (nbytes == 0) return wrap(c10::DataPtr(nullptr, c10::Device(device_type, index)), 0, sizes, strides, type);
  const auto allocation = translated([&] { return allocate_for(sizes, strides, host, nbytes, index); });
  return wrap(data_ptr_of(allocation, index), nbytes, sizes, strides, type);
}

at::Tensor new_tensor_with_layout(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                                  c10::Device device, const SpyreTensorLayout& layout) {
  const HostType host = host_type(type, 2);
  const int64_t nbytes = storage_bytes(sizes, strides, type);
  const c10::DeviceIndex index = complete(device).index();
  if (nbytes == 0) return new_tensor(sizes, strides, type, device);
  const auto allocation = translated([&] {
    return runtime_device(index).allocator().allocate_typed(nbytes, current_stream(index),
                                                            placement_with(sizes, strides, host, layout));
  });
  return wrap(data_ptr_of(allocation, index), nbytes, sizes, strides, type);
}

Allocation& allocation_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &Allocation::release_context && data.get_context())
    return *Allocation::from_context(data.get_context());
  const auto found = runtime::find(data.get());
  TORCH_CHECK(found, "no memory of the spyre device is at address ", data.get(),
              ": a tensor over foreign memory can't be used on the device after that memory was released");
  return *found;  // kept alive by the storage's owner
}

Memory memory_of(const at::Tensor& tensor) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  const Allocation& allocation = allocation_of(storage);
  return {allocation.serial(), storage_byte_of(storage, allocation)};
}

at::Tensor whole_memory_bytes(const at::Tensor& tensor) {
  at::Tensor bytes = at::empty({0}, tensor.options().dtype(at::kByte));
  const Allocation& allocation = allocation_of(*tensor.storage().unsafeGetStorageImpl());
  TORCH_CHECK(
      memory_of(tensor).storage_byte == 0,
      "arguments of different dtypes share the memory of a tensor that came through DLPack: clone() one of them");
  bytes.unsafeGetTensorImpl()->set_storage_keep_dtype(tensor.storage());
  bytes.unsafeGetTensorImpl()->set_sizes_contiguous({allocation.logical_bytes()});
  return bytes;
}

int64_t first_element(const at::Tensor& tensor, const Allocation& allocation) {
  const int64_t item = static_cast<int64_t>(tensor.itemsize());
  const int64_t byte = storage_byte_of(*tensor.storage().unsafeGetStorageImpl(), allocation);
  TORCH_CHECK(byte % item == 0, "a ", tensor.scalar_type(), " tensor starts at byte ", byte,
              " of its memory, not at a multiple of its element size: clone() it on the CPU first");
  return byte / item + tensor.storage_offset();
}

runtime::DeviceTensor device_tensor(const at::Tensor& tensor, bool read) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  Allocation& allocation = allocation_of(storage);
  const HostType type = host_type(tensor.scalar_type(), tensor.numel());
  const int64_t first = first_element(tensor, allocation);
  const bool bytes_do = type == HostType::u8 || type == HostType::i64 || type == HostType::f64;
  if (read && !bytes_do && !allocation.typed())
    runtime::make_typed(allocation, first_placement(tensor, allocation, storage_byte_of(storage, allocation), type),
                        current_stream(tensor.device().index()));
  runtime::DeviceTensor result;
  result.allocation = &allocation;
  result.type = type;
  result.view = {vec(tensor.sizes()), vec(tensor.strides()), first};
  return result;
}

Allocation& typed_allocation(const at::Tensor& tensor) {
  const c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  Allocation& allocation = allocation_of(storage);
  const HostType type = host_type(tensor.scalar_type(), 2);
  translated([&] {
    const PlacementPtr now = allocation.placement();
    if (!now || now->type != type)
      runtime::make_typed(allocation, first_placement(tensor, allocation, storage_byte_of(storage, allocation), type),
                          current_stream(tensor.device().index()));
  });
  return allocation;
}

SpyreTensorLayout tensor_layout(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_privateuseone() && tensor.has_storage(),
              "get_spyre_tensor_layout: expected a tensor on the spyre device, not on ", tensor.device());
  const HostType type = host_type(tensor.scalar_type(), 2);
  return translated([&] {
    if (tensor.storage().nbytes() == 0)
      return default_placement(tensor.sizes(), tensor.strides(), type)->user_layout.value();
    const PlacementPtr placement = typed_allocation(tensor).placement();
    if (placement->user_layout) return *placement->user_layout;
    return SpyreTensorLayout({placement->geometry.storage_elements}, placement->type);
  });
}

void set_tensor_layout(const at::Tensor& tensor, const SpyreTensorLayout& layout) {
  TORCH_CHECK(tensor.is_privateuseone(), "set_spyre_tensor_layout: expected a tensor on the spyre device, not on ",
              tensor.device());
  if (tensor.numel() == 0) return;
  Allocation& allocation = typed_allocation(tensor);
  TORCH_CHECK(whole(tensor, allocation, memory_of(tensor).storage_byte),
              "a layout belongs to the whole memory of a tensor, and this ", tensor.sizes(),
              " tensor is a view of a part of it: clone() it first");
  translated([&] {
    runtime::relayout(allocation,
                      placement_with(tensor.sizes(), tensor.strides(), host_type(tensor.scalar_type(), 2), layout),
                      current_stream(tensor.device().index()));
  });
}

void resize_storage(c10::StorageImpl& storage, int64_t nbytes, c10::DeviceIndex index) {
  if (static_cast<int64_t>(storage.nbytes()) == nbytes) return;
  TORCH_CHECK(storage.resizable(), "trying to resize a storage that is not resizable");
  c10::DataPtr data(nullptr, c10::Device(device_type, index));
  if (nbytes > 0 && storage.nbytes() == 0)
    data = data_ptr_of(
        translated([&] { return runtime_device(index).allocator().allocate(nbytes, current_stream(index)); }), index);
  if (nbytes > 0 && storage.nbytes() > 0) {
    Allocation& old = allocation_of(storage);
    TORCH_CHECK(storage_byte_of(storage, old) == 0, "trying to resize a storage over foreign memory");
    data = data_ptr_of(translated([&] { return runtime::resize(old, nbytes, current_stream(index)); }), index);
  }
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(static_cast<size_t>(nbytes));
}

void resize_strided(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  // Memory first: a tensor that can't grow keeps its sizes.
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const int64_t numel = c10::multiply_integers(sizes);
  const HostType type = host_type(tensor.scalar_type(), numel);
  const c10::DeviceIndex index = tensor.device().index();
  c10::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  const int64_t needed = numel == 0 ? 0
                                    : storage_bytes(sizes, strides, tensor.scalar_type()) +
                                          tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  if (needed > static_cast<int64_t>(storage.nbytes())) {
    if (storage.nbytes() > 0 || tensor.storage_offset() != 0) {
      resize_storage(storage, needed, index);
    } else {  // the first elements of an empty storage: placed as a new tensor would be
      TORCH_CHECK(storage.resizable(), "trying to resize a storage that is not resizable");
      storage.set_data_ptr_noswap(
          data_ptr_of(translated([&] { return allocate_for(sizes, strides, type, needed, index); }), index));
      storage.set_nbytes(static_cast<size_t>(needed));
    }
  }
  impl->set_sizes_and_strides(sizes, strides);
}

}  // namespace spyre::torch
