// torch's view of the runtime's allocators: c10::DeviceAllocator for device memory, at::HostAllocator for pinned host
// memory.
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include "runtime/pinned.h"
#include "runtime/transitions.h"
#include "torch/records.h"

namespace spyre::torch {
namespace {

namespace stats = c10::CachingAllocator;

stats::Stat convert(const runtime::Stat& from) {
  stats::Stat to;
  to.current = from.current;
  to.peak = from.peak;
  to.allocated = from.allocated;
  to.freed = from.freed;
  return to;
}
stats::StatArray convert(const runtime::StatArray& from) {
  return {convert(from[0]), convert(from[1]), convert(from[2])};
}

class DeviceAllocator final : public c10::DeviceAllocator {
 public:
  /// Raw memory on the current device: a storage without a dtype.
  c10::DataPtr allocate(size_t n) override {
    const c10::DeviceIndex index = current_device().index();
    if (n == 0) return {nullptr, c10::Device(device_type, index)};
    return data_ptr_of(
        translated(
            [&] { return runtime_device(index).allocator().allocate(static_cast<int64_t>(n), current_stream(index)); }),
        index);
  }
  void copy_data(void* destination, const void* source, size_t count) const override {
    translated([&] {
      const auto from = runtime::find(source), to = runtime::find(destination);
      TORCH_CHECK(from && to, "copy between addresses that are not memory of the spyre device");
      runtime::copy_bytes(*from, offset(source, *from), *to, offset(destination, *to), static_cast<int64_t>(count),
                          current_stream(static_cast<c10::DeviceIndex>(to->device().index())));
    });
  }

  bool initialized() override { return runtime::started(); }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < runtime::device_count(); ++i)
      if (runtime::Device* device = runtime::started_device(i)) translated([&] { device->allocator().empty_cache(); });
  }
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (!data.get()) return;
    if (const auto allocation = runtime::find(data.get())) allocation->note_use(runtime_stream(stream));
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats to;
    runtime::Device* device = runtime::started_device(complete({device_type, index}).index());
    if (!device) return to;
    const runtime::Statistics from = device->allocator().statistics();
    to.allocation = convert(from.allocation);
    to.segment = convert(from.segment);
    to.active = convert(from.active);
    to.inactive_split = convert(from.inactive_split);
    to.allocated_bytes = convert(from.allocated_bytes);
    to.reserved_bytes = convert(from.reserved_bytes);
    to.active_bytes = convert(from.active_bytes);
    to.inactive_split_bytes = convert(from.inactive_split_bytes);
    to.requested_bytes = convert(from.requested_bytes);
    to.num_alloc_retries = from.num_alloc_retries;
    to.num_ooms = from.num_ooms;
    to.num_sync_all_streams = from.num_sync_all_streams;
    to.num_device_alloc = from.num_device_alloc;
    to.num_device_free = from.num_device_free;
    return to;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    if (runtime::Device* device = runtime::started_device(complete({device_type, index}).index()))
      device->allocator().reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    if (runtime::Device* device = runtime::started_device(complete({device_type, index}).index()))
      device->allocator().reset_peak();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const runtime::MemoryInfo info = translated([&] { return runtime_device(index).allocator().info(); });
    return {static_cast<size_t>(info.free_bytes), static_cast<size_t>(info.total_bytes)};
  }

 private:
  static int64_t offset(const void* address, const runtime::Allocation& allocation) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) - static_cast<uintptr_t>(allocation.logical()));
  }
};

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    void* memory = translated([&] { return runtime::allocate_pinned(n); });
    return {memory, memory, &runtime::free_pinned, at::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &runtime::free_pinned; }
  void copy_data(void* destination, const void* source, size_t count) const override {
    default_copy_data(destination, source, count);
  }
  bool record_event(void* pointer, void*, c10::Stream stream) override {
    return runtime::note_pinned_use(pointer, runtime_stream(stream));
  }
  void empty_cache() override { runtime::empty_pinned_cache(); }
  at::HostStats get_stats() override {
    const runtime::PinnedStatistics now = runtime::pinned_statistics();
    at::HostStats result;
    result.active_requests.current = now.buffers;
    result.active_bytes.current = now.bytes;
    result.allocations.current = now.buffers + now.cached_buffers;
    result.allocated_bytes.current = now.bytes + now.cached_bytes;
    return result;
  }
  // The pinned statistics hold current values only: there is nothing to reset.
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

DeviceAllocator the_allocator;
PinnedAllocator the_pinned_allocator;
const bool allocators_registered = [] {
  c10::SetAllocator(device_type, &the_allocator);
  at::setHostAllocator(device_type, &the_pinned_allocator);
  return true;
}();

}  // namespace

c10::Allocator* device_allocator() { return &the_allocator; }

}  // namespace spyre::torch
