// The soft card: one card's memory and 32 cores; executes verified tile programs and tells their modelled time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "card/memory.h"
#include "device/description.h"
#include "program/tree.h"
#include "timing/timeline.h"

namespace spyre::card {

struct RunOptions {
  bool checker = false;       ///< trap uninitialised reads, out of bounds, slot misuse, overlap
  bool random_order = false;  ///< any order that sections 4 and 5 allow; poisoned free slots; numbers must not change
  uint64_t seed = 0;          ///< of random_order
};

/// A program made ready to run: verified, placed, lowered to the card's own form. Immutable; shared by launches and
/// cards.
class Executable {
 public:
  /// Verifies. Throws Error(program).
  Executable(program::Program program, const device::Description& description);
  ~Executable();
  const program::Program& program() const;
  /// Bytes that the program takes in segment 7.
  int64_t image_bytes() const;
  /// Modelled time for these scalars; walked once per distinct scalar values that matter, then cached. Thread-safe.
  const timing::Timeline& timeline(const timing::ScalarValues& scalars) const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// The correction table of one launch as the card reads it from device memory: little-endian u64 physical byte address
/// per Program symbol (allocation base; the view's offset is the program's), then per scalar 8 bytes (i64, or f32 bits
/// in the low 4).
std::vector<std::byte> correction_table(const program::Program& program, const std::vector<uint64_t>& symbol_addresses,
                                        const timing::ScalarValues& scalars);

class Card {
 public:
  explicit Card(const device::Description& description);
  ~Card();
  const device::Description& description() const;
  Memory& memory();

  /// Step three of a launch: corrects addresses from the table at `correction_address` (segment 7) and runs to the end,
  /// on the calling thread and the shared pool. Throws Error naming op and source line when the program traps; memory
  /// written so far stays written; the card stays usable. Thread-safe: launches of several streams may run at once.
  void start(const Executable& executable, uint64_t correction_address, const RunOptions& options = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::card
