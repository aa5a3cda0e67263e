// A pending tile as the host kernels see it, without copying it to LX first.
#pragma once

#include "card/host_tile.h"
#include "card/lazy_tile.h"

namespace spyre::card {

/// Describes the tile over device memory and returns true when it is two-dimensional (or one row), its sticks lie
/// evenly and nothing of it needs filling.
bool tile_in_memory(const LazyTile& lazy, host::Tile& tile);

/// The same for the part of it that begins at this row and column and has `cols` columns: from a stick's first lane on,
/// or within one stick.
bool part_in_memory(const LazyTile& lazy, int64_t row, int64_t column, int64_t cols, host::Tile& tile);

/// The same for a box that is to be stored from `from`, under the further condition that rows are whole sticks.
bool store_in_memory(const SymbolMap& map, std::byte* memory, const MemBox& box, const View& from,
                     host::MutableTile& tile);

/// Decodes such a tile of real numbers to float32 rows, once for all steps that read it. False (and nothing done) when
/// it has more elements than a second-level cache holds together with the results.
bool decode_rows(LazyTile& lazy, const host::Tile& tile);

}  // namespace spyre::card
