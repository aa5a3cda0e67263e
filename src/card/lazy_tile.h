// LazyTile: a tile whose LX bytes nobody has looked at yet: a loaded one still lies in device memory only, and of one
// that a vector step made there are only the values.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "card/host_tile.h"
#include "card/view.h"

namespace spyre::card {

/// One affine memory access under a core's variables: per view dimension, indices base + step x p, p < extent. Made and
/// copied for every step: only the dimensions that there are.
struct MemBox {
  struct Dim {
    int64_t base, step, extent;
    int64_t stride;  ///< elements between neighbouring positions in the tile; 0 for a dropped point
    bool operator==(const Dim&) const = default;
  };
  int rank = 0;
  std::array<Dim, max_rank> dims;  ///< the first `rank` ones

  MemBox() {}  // NOLINT: dims stay as they are
  MemBox(const MemBox& o) { *this = o; }
  MemBox& operator=(const MemBox& o) {
    rank = o.rank;
    for (int d = 0; d < rank; ++d) dims[d] = o.dims[d];
    return *this;
  }
  bool operator==(const MemBox& o) const {
    bool same = rank == o.rank;
    for (int d = 0; d < rank && same; ++d) same = dims[d] == o.dims[d];
    return same;
  }
  bool empty() const {
    for (int d = 0; d < rank; ++d)
      if (dims[d].extent <= 0) return true;
    return false;
  }
};

class SymbolMap;

/// Rows of float32, aligned to 128 bytes, kept from tile to tile.
struct DecodedRows {
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data;
  int64_t elements = 0;
  int64_t stride = 0;  ///< elements between rows
  float* at(int64_t row, int64_t column) const { return data.get() + row * stride + column; }
};

/// What a load makes of a tile, where it lies: all of it, or less where the access is clipped.
struct MadeInMemory {
  host::Tile tile;
  int64_t rows = 0, cols = 0;
};

struct LazyTile {
  bool pending = false;
  bool reused = false;             ///< the thread will soon want the same box again: its decoded form is worth keeping
  const SymbolMap* map = nullptr;  ///< null: made by a vector step, `rows` are its values
  const std::byte* memory = nullptr;  ///< host address of the allocation
  Id formal = program::none;
  MemBox box;
  enum class Even : uint8_t { unknown, yes, no } even = Even::unknown;
  MadeInMemory made;  ///< of `box`, when `even`
  View to;
  uint32_t fill = 0;  ///< bits of the fill element
  bool decoded = false;
  DecodedRows rows;  ///< valid when decoded: the values of `box`, for all steps that read the tile

  /// A pending tile that no load made but a vector step: `rows` are all there is of it.
  bool has_values() const { return map == nullptr; }
};

}  // namespace spyre::card
