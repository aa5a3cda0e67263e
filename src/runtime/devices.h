// Devices: the cards of this process, started at first use.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "card/card.h"
#include "device/description.h"
#include "runtime/streams.h"

namespace spyre::runtime {

class Allocator;
class ProgramMemory;

/// Number of devices that this process sees: the length of SPYRE_DEVICES (an index list, "0,1"), else AIU_WORLD_SIZE,
/// else 1. Starts nothing and never throws: when the variable is malformed the answer is 0, and device() tells why.
int device_count() noexcept;

/// True once a device of this process was started (by device()); false in a forked child.
bool started() noexcept;

/// True in a child that was forked after its parent started a device. Everything but the release of memory then throws
/// Error(user) with the advice to use the "spawn" start method; releases do nothing.
bool in_forked_child() noexcept;
/// Throws Error(user) when in_forked_child().
void check_process();

/// One card with its allocator and streams. Thread-safe.
class Device {
 public:
  /// Starts a card. `ordinal` is what the card is called outside (an entry of SPYRE_DEVICES); equal to `index` by
  /// default. device() makes those of the process; tests make their own, with any description and any index.
  Device(int index, const device::Description& description, int ordinal = -1);
  /// Waits for all its streams. No Allocation of it may be left.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  int ordinal() const { return ordinal_; }
  const device::Description& description() const { return card_.description(); }
  card::Card& card() { return card_; }
  Allocator& allocator() { return *allocator_; }
  ProgramMemory& program_memory() { return *program_memory_; }

  /// Stream 0, which is always there.
  Stream& default_stream() { return *default_stream_; }
  /// A stream of this priority: lower numbers go first, as in torch; clamped to lowest_priority..highest_priority.
  /// Streams are never destroyed: after 32 of one priority, earlier ones are handed out again, round robin.
  Stream& create_stream(int priority = 0);
  /// The stream with this id. Throws Error(user) for an id that create_stream() never gave.
  Stream& stream(int64_t id);
  /// All streams made so far.
  std::vector<Stream*> streams() const;

  /// Waits until all work enqueued so far on every stream is done. Throws the first pending error and clears all of
  /// them.
  void synchronize();

  /// How programs run on the card: SPYRE_CHECKER=1 and SPYRE_RANDOM_ORDER=<seed> set it at start. Not synchronised:
  /// change it while the device is idle.
  card::RunOptions& run_options() { return run_options_; }
  /// Launches advance the modelled clocks only, and compute nothing (SPYRE_TIMING_ONLY=1). Not synchronised.
  bool& timing_only() { return timing_only_; }

 private:
  int index_, ordinal_;
  card::Card card_;
  card::RunOptions run_options_;
  bool timing_only_ = false;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<ProgramMemory> program_memory_;
  mutable std::mutex mutex_;  // streams_ and turn_
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<size_t> turn_;
  Stream* default_stream_ = nullptr;
};

/// The device of this index, started now if it wasn't. Throws Error(user) for an index outside device_count() or in a
/// forked child, Error(configuration) for malformed variables, and what card::Card and load_description() throw.
Device& device(int index);
/// The device if it was started, or null; starts nothing.
Device* started_device(int index) noexcept;

}  // namespace spyre::runtime
