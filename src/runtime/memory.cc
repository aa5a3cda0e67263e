#include "runtime/memory.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/devices.h"
#include "runtime/logical_range.h"

namespace spyre::runtime {

// ---------------------------------------------------------------------------------------------------------- placements

PlacementPtr Placement::of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, base::HostType type,
                           bool ieee) {
  auto placed = layout::default_placement(sizes, strides, type, ieee);
  return std::make_shared<const Placement>(Placement{type, std::move(placed.geometry), std::move(placed.layout)});
}

PlacementPtr Placement::linear(base::HostType type, int64_t elements, bool ieee) {
  auto geometry = layout::Geometry::linear(base::device_format(type, ieee), elements);
  return std::make_shared<const Placement>(
      Placement{type, std::move(geometry), layout::SpyreTensorLayout({elements}, type)});
}

// --------------------------------------------------------------------------------------------------------- allocations

Allocation::Allocation(Device& device, Stream& home, uint64_t serial, int64_t logical_bytes)
    : device_(device), serial_(serial), logical_bytes_(logical_bytes) {
  place_.home = &home;
}

Allocation::~Allocation() {
  if (in_forked_child()) return;
  if (logical_ != 0) LogicalRange::shared().give(logical_);
  if (place_.block) device_.allocator().give(place_.block, place_.uses);
}

Stream& Allocation::home_stream() const {
  std::lock_guard lock(mutex_);
  return *place_.home;
}

Allocation::State Allocation::state() const {
  std::lock_guard lock(mutex_);
  return place_.state;
}

Allocation::State Allocation::use(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (&stream != place_.home && std::find(place_.uses.begin(), place_.uses.end(), &stream) == place_.uses.end())
    place_.uses.push_back(&stream);
  return place_.state;
}

void Allocation::note_use(Stream& stream) {
  std::lock_guard lock(mutex_);
  if (&stream != place_.home && std::find(place_.uses.begin(), place_.uses.end(), &stream) == place_.uses.end())
    place_.uses.push_back(&stream);
}

void Allocation::attach(std::shared_ptr<void> companion) {
  std::lock_guard lock(mutex_);
  companions_.push_back(std::move(companion));
}

Allocation::Place Allocation::exchange(Place place) {
  std::lock_guard lock(mutex_);
  std::swap(place_, place);
  return place;
}

bool Allocation::put_back(const PlacementPtr& expected, Place& place) {
  std::lock_guard lock(mutex_);
  if (place_.state.placement != expected) return false;
  std::swap(place_, place);
  return true;
}

void* Allocation::retain_context() {
  if (contexts_.fetch_add(1, std::memory_order_acq_rel) == 0) {
    std::lock_guard lock(mutex_);
    self_ = shared_from_this();
  }
  return this;
}

void Allocation::release_context(void* context) {
  auto* const allocation = from_context(context);
  if (!allocation) return;
  if (allocation->contexts_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  std::shared_ptr<Allocation> last;  // destroyed after the lock
  {
    std::lock_guard lock(allocation->mutex_);
    if (allocation->contexts_.load(std::memory_order_acquire) == 0) last.swap(allocation->self_);
  }
}

AllocationPtr find(const void* address) {
  if (in_forked_child()) return nullptr;
  return LogicalRange::shared().find(reinterpret_cast<uintptr_t>(address));
}

// ---------------------------------------------------------------------------------------------------------- statistics

void Stat::increase(int64_t amount) {
  current += amount;
  peak = std::max(peak, current);
  allocated += amount;
}

void Stat::decrease(int64_t amount) {
  current -= amount;
  freed += amount;
}

// ---------------------------------------------------------------------------------------------------------- workspaces

Workspace::Workspace(Stream& stream, int64_t bytes)
    : stream_(&stream), block_(stream.device().allocator().take(bytes, stream)) {}

Workspace::~Workspace() {
  if (block_) stream_->device().allocator().give(block_, {});
}

uint64_t Workspace::address() const { return Allocator::address_of(block_); }

}  // namespace spyre::runtime
