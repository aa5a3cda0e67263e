// The caching allocator: segments taken from the card's memory, blocks cut from them and kept for reuse by stream.
#include <algorithm>
#include <atomic>
#include <set>
#include <unordered_set>

#include "base/env.h"
#include "base/error.h"
#include "base/rounding.h"
#include "runtime/devices.h"
#include "runtime/logical_range.h"
#include "runtime/memory.h"
#include "runtime/space.h"

namespace spyre::runtime {

/// A piece of a segment; neighbours are linked. Free blocks belong to their stream.
struct Block {
  uint64_t address = 0;
  int64_t size = 0, requested = 0;  // bytes
  Stream* stream = nullptr;
  bool large = false, in_use = false;
  Block *previous = nullptr, *next = nullptr;
  std::vector<std::shared_ptr<Signal>> pending;  // of other streams that may still use it

  bool split() const { return previous || next; }
};

struct ByStreamAndSize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->stream != b->stream) return std::less<>()(a->stream, b->stream);
    if (a->size != b->size) return a->size < b->size;
    return a->address < b->address;
  }
};
using FreeBlocks = std::set<Block*, ByStreamAndSize>;

namespace {

constexpr int64_t mib = 1 << 20;
constexpr int64_t small_limit = 1 * mib;  // blocks up to this size come from small segments
constexpr int64_t small_segment = 2 * mib;
constexpr int64_t medium_limit = 10 * mib;  // larger ones get a segment of their own
constexpr int64_t medium_segment = 20 * mib;
constexpr int64_t large_rounding = 2 * mib;

std::string human(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  if (bytes < mib) return fmt::format("{:.2f} KiB", static_cast<double>(bytes) / 1024);
  if (bytes < 1024 * mib) return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / mib);
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1024.0 * mib));
}

std::atomic<uint64_t> next_serial{1};
std::atomic<bool (*)(Device&)> reclaim_hook{nullptr};

}  // namespace

struct Allocator::Impl {
  Impl(Device& d)
      : device(d),
        alignment(std::max<int64_t>(base::stick_bytes, d.description().allocation_alignment_bytes)),
        total(std::min(d.description().memory_bytes, (d.description().segments - 1) * d.description().segment_bytes) /
              alignment * alignment),
        space(0, total),
        scramble(layout_option()) {}

  static bool layout_option() {
    const std::string text = base::env_string("SPYRE_LAYOUT", "default");
    if (text != "default" && text != "scramble")
      fail(Fault::configuration, "SPYRE_LAYOUT is '{}', not 'default' or 'scramble'", text);
    return text == "scramble";
  }

  Device& device;
  const int64_t alignment, total;
  std::mutex mutex;  // all below
  Space space;
  FreeBlocks free_small, free_large;
  std::unordered_set<Block*> pending;  // given back, waiting for other streams
  Statistics statistics;
  const bool scramble;

  FreeBlocks& free_of(const Block& block) { return block.large ? free_large : free_small; }
  void count(StatArray& stat, const Block& block, int64_t amount) {
    for (const Pool pool : {Pool::aggregate, block.large ? Pool::large : Pool::small}) {
      Stat& s = stat[static_cast<size_t>(pool)];
      amount >= 0 ? s.increase(amount) : s.decrease(-amount);
    }
  }
  void count_split(const Block& block, int sign) {
    if (!block.split()) return;
    count(statistics.inactive_split, block, sign);
    count(statistics.inactive_split_bytes, block, sign * block.size);
  }
  void insert_free(Block* block) {
    count_split(*block, 1);
    free_of(*block).insert(block);
  }
  void remove_free(Block* block) {
    count_split(*block, -1);
    free_of(*block).erase(block);
  }

  // Makes a block free for its stream, merged with free neighbours.
  void release(Block* block) {
    count(statistics.active, *block, -1);
    count(statistics.active_bytes, *block, -block->size);
    block->pending.clear();
    const auto merge = [&](Block* left, Block* right) {
      left->size += right->size;
      left->next = right->next;
      if (left->next) left->next->previous = left;
      delete right;
      return left;
    };
    const auto is_free = [](const Block* b) { return b && !b->in_use && b->pending.empty(); };
    if (is_free(block->previous)) {
      remove_free(block->previous);
      block = merge(block->previous, block);
    }
    if (is_free(block->next)) {
      remove_free(block->next);
      merge(block, block->next);
    }
    insert_free(block);
  }

  void collect_pending() {
    for (auto place = pending.begin(); place != pending.end();) {
      Block* const block = *place;
      std::erase_if(block->pending, [](const auto& signal) { return signal->reached(); });
      if (block->pending.empty()) {
        place = pending.erase(place);
        release(block);
      } else {
        ++place;
      }
    }
  }

  Block* find_free(int64_t size, Stream& stream, bool large) {
    FreeBlocks& blocks = large ? free_large : free_small;
    Block key;
    key.size = size;
    key.stream = &stream;
    const auto place = blocks.lower_bound(&key);
    if (place == blocks.end() || (*place)->stream != &stream) return nullptr;
    Block* const block = *place;
    // A huge block for a small request would be lost to the next huge request.
    if (large && size < medium_limit && block->size > medium_segment && !block->split()) return nullptr;
    remove_free(block);
    return block;
  }

  Block* new_segment(int64_t size, Stream& stream, bool large) {
    int64_t bytes = !large                ? small_segment
                    : size < medium_limit ? medium_segment
                                          : base::round_up(size, large_rounding);
    uint64_t address = 0;
    if (!space.take(bytes, address)) {
      bytes = size;
      if (!space.take(bytes, address)) return nullptr;
    }
    auto* const block = new Block;
    block->address = address;
    block->size = bytes;
    block->stream = &stream;
    block->large = large;
    ++statistics.num_device_alloc;
    count(statistics.segment, *block, 1);
    count(statistics.reserved_bytes, *block, bytes);
    return block;
  }

  // Cuts what isn't needed off a block that is in no list.
  void split(Block* block, int64_t size) {
    const int64_t rest = block->size - size;
    if (rest < (block->large ? small_limit + 1 : alignment)) return;
    auto* const tail = new Block;
    tail->address = block->address + static_cast<uint64_t>(size);
    tail->size = rest;
    tail->stream = block->stream;
    tail->large = block->large;
    tail->previous = block;
    tail->next = block->next;
    if (tail->next) tail->next->previous = tail;
    block->next = tail;
    block->size = size;
    insert_free(tail);
  }

  Block* try_take(int64_t size, Stream& stream) {
    const bool large = size > small_limit;
    Block* block = find_free(size, stream, large);
    if (!block) block = new_segment(size, stream, large);
    if (block) split(block, size);
    return block;
  }

  // Streams behind which whole free segments, or blocks given back, wait.
  std::vector<Stream*> streams_of_cache() {
    std::set<Stream*> found;
    for (const FreeBlocks* blocks : {&free_small, &free_large})
      for (const Block* block : *blocks)
        if (!block->split()) found.insert(block->stream);
    for (const Block* block : pending) {
      found.insert(block->stream);
      for (const auto& signal : block->pending) found.insert(&signal->stream());
    }
    return {found.begin(), found.end()};
  }

  // Gives the whole free segments of idle streams back to the card.
  bool release_segments() {
    bool any = false;
    for (FreeBlocks* blocks : {&free_small, &free_large}) {
      for (auto place = blocks->begin(); place != blocks->end();) {
        Block* const block = *place;
        if (block->split() || !block->stream->idle()) {
          ++place;
          continue;
        }
        place = blocks->erase(place);
        device.card().memory().discard(block->address, block->size);
        space.give(block->address, block->size);
        ++statistics.num_device_free;
        count(statistics.segment, *block, -1);
        count(statistics.reserved_bytes, *block, -block->size);
        delete block;
        any = true;
      }
    }
    return any;
  }

  int64_t largest_block() const {
    int64_t most = space.largest();
    for (const FreeBlocks* blocks : {&free_small, &free_large})
      for (const Block* block : *blocks) most = std::max(most, block->size);
    return most;
  }

  [[noreturn]] void out_of_memory(int64_t bytes) {
    const auto& s = statistics;
    const int64_t reserved = s.reserved_bytes[0].current, used = s.allocated_bytes[0].current;
    const int64_t waiting = s.active_bytes[0].current - used;
    fail(Fault::out_of_memory,
         "spyre out of memory. Tried to allocate {}. Device {} has a total capacity of {}, of which {} is free. {} is "
         "in use "
         "by tensors and {} is reserved but unused{}; the largest free block has {}. If much is reserved but unused, "
         "memory "
         "is in pieces: call torch.spyre.empty_cache(), or allocate the large tensors first. Else use smaller batches, "
         "free tensors that are not needed, or spread the model over more devices (SPYRE_DEVICES).",
         human(bytes), device.index(), human(total), human(total - reserved), human(used), human(reserved - used),
         waiting > 0 ? fmt::format(" ({} of it waits for other streams)", human(waiting)) : "", human(largest_block()));
  }
};

Allocator::Allocator(Device& device) : impl_(std::make_unique<Impl>(device)) {}

Allocator::~Allocator() {
  // Blocks given back in the order of other streams: the device has waited for them.
  Impl& m = *impl_;
  m.collect_pending();
  for (FreeBlocks* blocks : {&m.free_small, &m.free_large})
    for (Block* block : *blocks) delete block;
}

uint64_t Allocator::address_of(const Block* block) { return block ? block->address : 0; }
int64_t Allocator::bytes_of(const Block* block) { return block ? block->size : 0; }

Block* Allocator::take(int64_t bytes, Stream& stream) {
  check_process();
  Impl& m = *impl_;
  if (bytes < 0) fail(Fault::user, "cannot allocate {} bytes of device memory", bytes);
  std::unique_lock lock(m.mutex);
  if (bytes > m.total) {
    ++m.statistics.num_ooms;
    m.out_of_memory(bytes);
  }
  const int64_t size = std::max(m.alignment, base::round_up(bytes, m.alignment));
  if (!m.pending.empty()) m.collect_pending();
  Block* block = m.try_take(size, stream);
  if (!block) {
    ++m.statistics.num_alloc_retries;
    m.release_segments();
    block = m.try_take(size, stream);
  }
  for (bool again = true; !block && again;) {
    // The lock is free while waiting: the work waited for may release memory.
    ++m.statistics.num_sync_all_streams;
    const auto streams = m.streams_of_cache();
    lock.unlock();
    for (Stream* s : streams) s->drain();
    lock.lock();
    m.collect_pending();
    block = m.try_take(size, stream);
    if (!block && m.release_segments()) block = m.try_take(size, stream);
    bool (*const reclaim)(Device&) = reclaim_hook.load(std::memory_order_acquire);
    again = false;
    if (!block && reclaim) {
      lock.unlock();
      again = reclaim(m.device);
      lock.lock();
    }
  }
  if (!block) {
    ++m.statistics.num_ooms;
    m.out_of_memory(bytes);
  }
  block->in_use = true;
  block->requested = bytes;
  m.count(m.statistics.allocation, *block, 1);
  m.count(m.statistics.active, *block, 1);
  m.count(m.statistics.active_bytes, *block, block->size);
  m.count(m.statistics.allocated_bytes, *block, block->size);
  m.count(m.statistics.requested_bytes, *block, bytes);
  return block;
}

void Allocator::give(Block* block, const std::vector<Stream*>& others) noexcept {
  if (!block || in_forked_child()) return;
  Impl& m = *impl_;
  std::vector<std::shared_ptr<Signal>> signals;
  for (Stream* stream : others) {
    auto signal = stream->record();
    if (!signal->reached()) signals.push_back(std::move(signal));
  }
  std::lock_guard lock(m.mutex);
  m.count(m.statistics.allocation, *block, -1);
  m.count(m.statistics.allocated_bytes, *block, -block->size);
  m.count(m.statistics.requested_bytes, *block, -block->requested);
  block->in_use = false;
  if (signals.empty()) {
    m.release(block);
  } else {
    block->pending = std::move(signals);
    m.pending.insert(block);
  }
}

AllocationPtr Allocator::allocate(int64_t nbytes, Stream& stream) { return allocate_exact(nbytes, stream, nullptr); }

AllocationPtr Allocator::allocate_typed(int64_t nbytes, Stream& stream, PlacementPtr placement) {
  return allocate_exact(nbytes, stream, chosen(placement));
}

PlacementPtr Allocator::chosen(const PlacementPtr& placement) const {
  if (!impl_->scramble || !placement) return placement;
  auto other = std::make_shared<Placement>(*placement);
  other->geometry = placement->geometry.scrambled(next_serial.fetch_add(1, std::memory_order_relaxed));
  return other;
}

int64_t Allocator::device_bytes(int64_t nbytes, const PlacementPtr& placement) {
  if (!placement) return nbytes;
  const int64_t elements = placement->geometry.storage_elements, width = base::host_bytes(placement->type);
  if (elements > nbytes / width)
    fail(Fault::user, "a layout of {} {} elements does not fit a storage of {} bytes", elements,
         base::host_name(placement->type), nbytes);
  return placement->geometry.device_bytes() + (nbytes - elements * width);
}

AllocationPtr Allocator::allocate_exact(int64_t nbytes, Stream& stream, PlacementPtr placement) {
  if (nbytes < 0) fail(Fault::user, "cannot allocate a tensor of {} bytes", nbytes);
  if (nbytes > int64_t{1} << 46) {
    std::lock_guard lock(impl_->mutex);
    ++impl_->statistics.num_ooms;
    impl_->out_of_memory(nbytes);
  }
  const int64_t physical = device_bytes(nbytes, placement);
  const uint64_t serial = next_serial.fetch_add(1, std::memory_order_relaxed);
  AllocationPtr allocation(new Allocation(impl_->device, stream, serial, nbytes));
  Block* const block = physical > 0 ? take(physical, stream) : nullptr;
  auto& place = allocation->place_;
  place.block = block;
  place.state = {std::move(placement), address_of(block), bytes_of(block)};
  allocation->logical_ = LogicalRange::shared().take(nbytes, allocation.get());
  return allocation;
}

Statistics Allocator::statistics() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->statistics;
}

namespace {

template <typename Fn>
void each_stat(Statistics& s, Fn fn) {
  for (StatArray* array : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                           &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes, &s.requested_bytes})
    for (Stat& stat : *array) fn(stat);
}

}  // namespace

void Allocator::reset_peak() {
  std::lock_guard lock(impl_->mutex);
  each_stat(impl_->statistics, [](Stat& stat) { stat.peak = stat.current; });
}

void Allocator::reset_accumulated() {
  std::lock_guard lock(impl_->mutex);
  Statistics& s = impl_->statistics;
  each_stat(s, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  s.num_alloc_retries = s.num_ooms = s.num_sync_all_streams = s.num_device_alloc = s.num_device_free = 0;
}

void Allocator::empty_cache() {
  check_process();
  Impl& m = *impl_;
  std::vector<Stream*> streams;
  {
    std::lock_guard lock(m.mutex);
    streams = m.streams_of_cache();
  }
  for (Stream* stream : streams) stream->drain();
  std::lock_guard lock(m.mutex);
  m.collect_pending();
  m.release_segments();
}

void Allocator::set_reclaim(bool (*reclaim)(Device&)) { reclaim_hook.store(reclaim, std::memory_order_release); }

MemoryInfo Allocator::info() const {
  std::lock_guard lock(impl_->mutex);
  return {impl_->total - impl_->statistics.reserved_bytes[0].current, impl_->total};
}

std::string Allocator::summary() const {
  std::lock_guard lock(impl_->mutex);
  const Statistics& s = impl_->statistics;
  std::string text = fmt::format(
      "spyre device {}: {} in all, largest free block {}, {} out-of-memory error(s), {} retries\n",
      impl_->device.index(), human(impl_->total), human(impl_->largest_block()), s.num_ooms, s.num_alloc_retries);
  text += fmt::format("{:<22}{:>14}{:>14}{:>14}{:>14}\n", "", "current", "peak", "allocated", "freed");
  const auto bytes = [&](const char* name, const StatArray& stat) {
    text += fmt::format("{:<22}{:>14}{:>14}{:>14}{:>14}\n", name, human(stat[0].current), human(stat[0].peak),
                        human(stat[0].allocated), human(stat[0].freed));
  };
  const auto number = [&](const char* name, const StatArray& stat) {
    text += fmt::format("{:<22}{:>14}{:>14}{:>14}{:>14}\n", name, stat[0].current, stat[0].peak, stat[0].allocated,
                        stat[0].freed);
  };
  bytes("allocated", s.allocated_bytes);
  bytes("requested", s.requested_bytes);
  bytes("active", s.active_bytes);
  bytes("reserved", s.reserved_bytes);
  bytes("unused, in pieces", s.inactive_split_bytes);
  number("allocations", s.allocation);
  number("segments", s.segment);
  return text;
}

}  // namespace spyre::runtime
