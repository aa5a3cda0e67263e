// A pending tile as the host kernels see it, without copying it to LX first.
#pragma once

#include "card/host_tile.h"
#include "card/lazy_tile.h"

namespace spyre::card {

/// Describes the tile over device memory and returns true when it is two-dimensional (or one row), its sticks lie
/// evenly and nothing of it needs filling.
bool tile_in_memory(const LazyTile& lazy, host::Tile& tile);

}  // namespace spyre::card
