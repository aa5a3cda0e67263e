// Checker: what a run in checker mode watches: undefined LX and temporaries, stores of two cores to one stick, loads of
// sticks that another core has just written. A checked run uses one thread.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "card/core.h"
#include "card/symbol_map.h"

namespace spyre::card {

/// All members throw Error(program) without the step's name; whoever runs the step adds it.
class Checker {
 public:
  Checker(const program::Program& program, const device::Description& description);

  /// A new kernel call: LX is undefined, nothing is written yet.
  void begin_kernel();
  /// A nest or barrier begins: earlier stores are visible to all cores.
  void barrier() { writers_.clear(); }
  /// A new instance of a buffer, of undefined content.
  void declare(const Core& core, Id buffer);

  void read(const Core& core, const View& view) const;
  /// Rows are written up to `row_end` elements (-1: the view's last size).
  void write(const Core& core, const View& view, int64_t row_end = -1);
  void undefine(const Core& core, const View& view);
  void read_matrix(const Core& core, View view, int64_t rows, int64_t cols) const;
  void write_matrix(const Core& core, View view, int64_t rows, int64_t cols);
  /// The tile positions that a store of `box` takes from `from`, `offset` elements on.
  void read_box(const Core& core, const View& from, const SymbolMap& map, const MemBox& box, int64_t offset) const;

  void load(const Core& core, const SymbolMap& map, Id formal, const MemBox& box) const;
  void store(const Core& core, const SymbolMap& map, Id formal, const MemBox& box);

 private:
  using Mask = std::array<uint64_t, 2>;  ///< a bit per byte of a stick
  std::vector<uint8_t>& shadow(const Core& core) const;
  int64_t offset(const Core& core, const std::byte* at) const;
  void mark(const Core& core, const View& view, int64_t row_end, uint8_t value);
  bool is_temp(const Core& core, Id formal) const;

  const program::Program& program_;
  int64_t lx_bytes_;
  mutable std::vector<std::vector<uint8_t>> defined_;  ///< [core] a byte per LX byte
  std::unordered_map<uint64_t, int> writers_;          ///< stick address -> core, since the last barrier
  std::unordered_map<uint64_t, Mask> temps_;           ///< stick address -> bytes written, of temporaries
};

}  // namespace spyre::card
