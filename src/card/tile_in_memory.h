// A pending tile as the host kernels see it, without copying it to LX first.
#pragma once

#include "card/host_tile.h"
#include "card/lazy_tile.h"

namespace spyre::card {

/// Where the tile lies: null when it isn't two-dimensional (or one row) or its sticks don't lie evenly. Looked up once
/// a box.
const MadeInMemory* made_in_memory(LazyTile& lazy);

/// A box of the tile, when the load makes all of it (nothing needs filling) and it begins with a stick or is within
/// one; else `tile` stays as it is.
struct BoxInMemory {
  int64_t row = 0, column = 0, rows = 0, cols = 0;
};
bool box_in_memory(const MadeInMemory& made, const BoxInMemory& box, host::Tile& tile);

/// The box that an operand's view is of `buffer`, which begins at `base`.
BoxInMemory box_of(const View& view, const std::byte* base, int64_t row_elements);

/// Where a box that is to be stored from `from` lies, when it is as even and rows are whole sticks.
bool store_in_memory(const SymbolMap& map, std::byte* memory, const MemBox& box, const View& from,
                     host::MutableTile& tile);

/// Room for float32 rows, whose stride it sets; null when they are more than a second-level cache holds together with
/// the results. Throws std::bad_alloc.
float* room_for(DecodedRows& to, int64_t rows, int64_t cols);

/// Decodes what is made to float32 rows, once for all steps that read it. False (and nothing done) when it has more
/// elements than a second-level cache holds together with the results.
bool decode_rows(LazyTile& lazy, const MadeInMemory& made);

}  // namespace spyre::card
