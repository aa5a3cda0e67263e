// Memory: allocations (a logical address that programs show, a physical place on the card) and the caching allocator of
// a device.
//
// Logical addresses come from a reserved range without access rights, so that a wild host read faults instead of
// reading nonsense. Physical memory is the contiguous address space of segments 0 to 6: an allocation may cross a
// segment border, the segments being one flat space to the card (docs/hardware.md). Segment 7 is ProgramMemory's
// (runtime/launch.h).
//
// Streams and frees. A block belongs to the stream it was allocated on. When its allocation is destroyed the block is
// at once free for that stream, whose FIFO order makes the reuse safe. Every enqueue on another stream is noted
// (note_use), and such a block becomes free only after those streams have passed the point of the release. So queued
// work never keeps an allocation alive, and never outlives its memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/formats.h"
#include "layout/geometry.h"
#include "layout/spyre_tensor_layout.h"
#include "runtime/streams.h"

namespace spyre::runtime {

class Allocator;
class Device;
struct Block;

/// How a typed allocation holds its elements. Immutable and shared: make it once per (sizes, strides, dtype), not per
/// tensor.
struct Placement {
  base::HostType type = base::HostType::f16;             ///< the host dtype that gave it its layout
  layout::Geometry geometry;                             ///< element -> place
  std::optional<layout::SpyreTensorLayout> user_layout;  ///< what users see

  /// The default placement of a new tensor (layout::default_placement).
  static std::shared_ptr<const Placement> of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                             base::HostType type, bool ieee);
  /// `elements` in a row, in storage order.
  static std::shared_ptr<const Placement> linear(base::HostType type, int64_t elements, bool ieee);
};
using PlacementPtr = std::shared_ptr<const Placement>;

/// One piece of device memory. **Raw** (no placement): host bytes in order. **Typed**: `placement` says where each
/// element is; logical bytes behind its last whole element, if any, follow the elements raw, from device_bytes() on.
/// Made by Allocator, freed with its last reference, on any thread, without waiting and without throwing.
class Allocation : public std::enable_shared_from_this<Allocation> {
 public:
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  Device& device() const { return device_; }
  uint64_t serial() const { return serial_; }    ///< unique in the process, never reused
  uint64_t logical() const { return logical_; }  ///< the address that data pointers show
  void* data() const { return reinterpret_cast<void*>(static_cast<uintptr_t>(logical_)); }
  int64_t logical_bytes() const { return logical_bytes_; }  ///< nbytes of the storage
  Stream& home_stream() const;  ///< whose order its block is reused in; a transition on another stream changes it

  /// A consistent view of what make_typed() and the like change; what queued work captures.
  struct State {
    PlacementPtr placement;      ///< null: raw
    uint64_t physical = 0;       ///< byte address in device memory
    int64_t physical_bytes = 0;  ///< bytes taken there, with rounding
  };
  State state() const;
  PlacementPtr placement() const { return state().placement; }
  bool typed() const { return placement() != nullptr; }

  /// Number of writes enqueued so far; each enqueued write adds at least 1. What was computed from the contents
  /// (repacked weights) stays valid while it is equal.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  void bump_generation() { generation_.fetch_add(1, std::memory_order_acq_rel); }

  /// Tells that work enqueued on `stream` uses this memory: its release waits for that stream. Everything in this
  /// folder that enqueues calls it; torch's record_stream is the same call. Nothing happens for the home stream.
  void note_use(Stream& stream);
  /// note_use and state in one.
  State use(Stream& stream);

  /// Keeps `companion` until this allocation is destroyed: for what was derived from its contents.
  void attach(std::shared_ptr<void> companion);

  /// For a DataPtr: a context that holds one reference, and the deleter that drops it. `from_context` is the fast way
  /// from a DataPtr whose deleter is release_context.
  void* retain_context();
  static void release_context(void* context);
  static Allocation* from_context(void* context) { return static_cast<Allocation*>(context); }

 private:
  friend class Allocator;
  friend class Transition;
  Allocation(Device& device, Stream& home, uint64_t serial, int64_t logical_bytes);

  // What a transition takes out of an allocation and may put back.
  struct Place {
    State state;
    Block* block = nullptr;
    Stream* home = nullptr;
    std::vector<Stream*> uses;
  };
  Place exchange(Place place);                                // puts `place` in, hands the former out
  bool put_back(const PlacementPtr& expected, Place& place);  // exchanges only if the placement is still `expected`

  Device& device_;
  const uint64_t serial_;
  uint64_t logical_ = 0;
  const int64_t logical_bytes_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> contexts_{0};
  std::mutex transition_;     // held by the one transition at a time
  mutable std::mutex mutex_;  // all below
  Place place_;
  std::shared_ptr<Allocation> self_;
  std::vector<std::shared_ptr<void>> companions_;
};
using AllocationPtr = std::shared_ptr<Allocation>;

/// The allocation whose logical range holds `address` (one past the end included), or null. Right for every pointer,
/// also of foreign DataPtrs; about 100 ns.
AllocationPtr find(const void* address);

/// One counter as torch.memory_stats shows it.
struct Stat {
  int64_t current = 0, peak = 0, allocated = 0, freed = 0;
  void increase(int64_t amount);
  void decrease(int64_t amount);
};
/// Indexed by Pool.
enum class Pool : uint8_t { aggregate, small, large };
using StatArray = std::array<Stat, 3>;

/// The shape of c10's DeviceStats. Bytes are physical bytes of device memory.
struct Statistics {
  StatArray allocation;      ///< allocations made by callers
  StatArray segment;         ///< pieces reserved from the card
  StatArray active;          ///< blocks in use, or waiting for other streams
  StatArray inactive_split;  ///< free blocks that are part of a segment in use
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes;
  StatArray requested_bytes;      ///< before rounding
  int64_t num_alloc_retries = 0;  ///< times that cached memory was released to serve a request
  int64_t num_ooms = 0;
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0, num_device_free = 0;  ///< segments taken from, given back to the card
};

struct MemoryInfo {
  int64_t free_bytes = 0, total_bytes = 0;  ///< free: not reserved by this process's allocator
};

/// The caching allocator of one device. Thread-safe; its lock is never held while anything outside this folder runs.
class Allocator {
 public:
  explicit Allocator(Device& device);
  ~Allocator();

  /// A raw allocation of nbytes >= 0 host bytes for work of `stream`; its contents are undefined. When memory is short
  /// it first releases cached memory, then waits for pending frees, then throws Error(out_of_memory) with a summary.
  /// Throws Error(user) for negative sizes.
  AllocationPtr allocate(int64_t nbytes, Stream& stream);
  /// A typed one. `nbytes` are host bytes of the storage; elements behind placement's are kept raw.
  /// SPYRE_LAYOUT=scramble replaces the geometry by geometry.scrambled(serial): read it back from the allocation.
  /// Throws Error(user) when the placement holds more elements than nbytes.
  AllocationPtr allocate_typed(int64_t nbytes, Stream& stream, PlacementPtr placement);
  /// The same with exactly this placement, whatever SPYRE_LAYOUT says: for copies of device bytes. Null: raw.
  AllocationPtr allocate_exact(int64_t nbytes, Stream& stream, PlacementPtr placement);
  /// The placement to use instead of this one: itself, or under SPYRE_LAYOUT=scramble another one of its own.
  PlacementPtr chosen(const PlacementPtr& placement) const;
  /// Device bytes of `nbytes` logical bytes under a placement (null: raw). Throws Error(user) when it holds more
  /// elements.
  static int64_t device_bytes(int64_t nbytes, const PlacementPtr& placement);

  Statistics statistics() const;
  void reset_peak();         ///< peaks become the current values
  void reset_accumulated();  ///< allocated, freed and the num_ counters become 0
  /// Gives cached memory back to the card, after its streams have passed it.
  void empty_cache();
  MemoryInfo info() const;
  /// What frees device memory that only serves speed (copies of weights): called, without a lock held, when a request
  /// can't be served otherwise. Returns whether it freed anything. One for the process; null: nothing.
  static void set_reclaim(bool (*reclaim)(Device&));
  /// A table for people: sizes in use, reserved, free, largest free block.
  std::string summary() const;

  /// The interface of this folder's other files: a block of device memory in the order of `stream`, and its return in
  /// the order of the same stream after the uses on `others`. take() throws as allocate(); give() never throws.
  Block* take(int64_t bytes, Stream& stream);
  void give(Block* block, const std::vector<Stream*>& others) noexcept;
  static uint64_t address_of(const Block* block);
  static int64_t bytes_of(const Block* block);

 private:
  friend class Allocation;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A block taken for one launch or copy: given back, in stream order, when this goes out of scope at the enqueue.
class Workspace {
 public:
  Workspace(Stream& stream, int64_t bytes);
  ~Workspace();
  Workspace(Workspace&& other) noexcept : stream_(other.stream_), block_(std::exchange(other.block_, nullptr)) {}
  Workspace& operator=(Workspace&&) = delete;
  uint64_t address() const;

 private:
  Stream* stream_;
  Block* block_;
};

}  // namespace spyre::runtime
