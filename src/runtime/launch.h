// Launch: a tile program on a stream, in the card's three ordered steps (docs/hardware.md):
//   1. resolve each symbol to the physical address of what is bound to it, on the host;
//   2. transfer the correction table (addresses and scalars) to segment 7;
//   3. start: the card corrects the program's addresses from the table and runs.
// Steps 1 and 2 are skipped when neither places nor scalars changed since the program's last launch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "card/card.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace spyre::runtime {

/// Segment 7 of a device: program images and correction tables. Thread-safe.
class ProgramMemory {
 public:
  explicit ProgramMemory(const device::Description& description);
  ~ProgramMemory();
  /// A range of at least `bytes`, aligned to a stick. Throws Error(out_of_memory) naming segment 7.
  uint64_t take(int64_t bytes);
  void give(uint64_t address) noexcept;
  int64_t used_bytes() const;
  int64_t total_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An allocation bound to a program symbol by the symbol's id (its index in Program::symbols).
struct Binding {
  program::Id symbol = program::none;
  Allocation* allocation = nullptr;
};

/// What one launch did, for callers that count.
struct LaunchReport {
  bool bindings_changed = false;  ///< steps 1 and 2 were done
  int staged_symbols = 0;         ///< symbols that were copied because they overlapped another one
};

/// A program loaded into one device: its image has a place in segment 7 until the last reference goes and the last
/// launch is done. Thread-safe; launches from several threads are serialised at the enqueue.
class LoadedProgram : public std::enable_shared_from_this<LoadedProgram> {
 public:
  /// Throws Error(out_of_memory) when segment 7 is full.
  static std::shared_ptr<LoadedProgram> load(Device& device, std::shared_ptr<const card::Executable> executable);
  ~LoadedProgram();

  Device& device() const;
  const card::Executable& executable() const;
  /// The id of a symbol; Error(user) when there is none of this name.
  program::Id symbol(std::string_view name) const;
  uint64_t image_address() const;
  /// Modelled time (ps) of one launch with these scalars: what a launch adds to its stream's clock, copies of
  /// overlapping symbols aside. Walked once per scalar values, then cached by the Executable; a launch does it off the
  /// calling thread.
  int64_t modelled_ps(std::span<const double> scalars = {}) const;

  /// Enqueues one launch. Every symbol but the temps is bound, once, in any order; temps are allocated for this launch.
  /// `scalars` are by Program scalar id. Throws, before anything is enqueued, Error(user) naming symbol or scalar when:
  /// one is missing, unknown or bound twice; an allocation is raw, of another device, or its geometry isn't the
  /// symbol's; the view leaves it; a scalar is out of its bounds or not a number; Error(out_of_memory); and the pending
  /// error of the stream. A trap of the program is thrown here if it ran on the calling thread, else it poisons the
  /// stream.
  ///
  /// Symbols that overlap another one, one of them written, are copied: inputs are read from a copy made before, so
  /// results are as if all inputs were read first; overlapping outputs are written back in the order of their ids.
  LaunchReport launch(Stream& stream, std::span<const Binding> bindings, std::span<const double> scalars = {});

 private:
  LoadedProgram(Device& device, std::shared_ptr<const card::Executable> executable);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::runtime
