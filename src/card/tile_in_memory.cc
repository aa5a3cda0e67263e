#include "card/tile_in_memory.h"

#include <new>

#include "card/symbol_map.h"

namespace spyre::card {

bool tile_in_memory(const LazyTile& lazy, host::Tile& tile) {
  const SymbolMap& map = *lazy.map;
  if (!map.separable() || map.stick_step() < 0 || lazy.box.rank == 0) return false;
  const int last = lazy.box.rank - 1;
  const int64_t lanes = base::elements_per_stick(lazy.to.format);
  int64_t at = map.constant(), made = 1;
  int row_dim = -1;
  for (int d = 0; d <= last; ++d) {
    const auto& dim = lazy.box.dims[d];
    if (dim.base < 0 || dim.extent <= 0 || dim.base + dim.step * (dim.extent - 1) >= map.size(d)) return false;
    at += map.part(d, dim.base);
    made *= dim.extent;
    if (d == last || dim.extent == 1) continue;
    if (row_dim >= 0 || map.even_step(d) < 0) return false;
    row_dim = d;
  }
  const auto& inner = lazy.box.dims[last];
  if (inner.step != 1 || (inner.extent > 1 && inner.stride != 1) || inner.base % lanes != 0) return false;
  if (made != lazy.to.numel() || lazy.to.last_size() != inner.extent) return false;
  const int64_t bytes = map.element_bytes();
  tile.format = lazy.to.format;
  tile.data = lazy.memory + at * bytes;
  tile.stick_stride = map.stick_step() * bytes;
  tile.row_stride = row_dim < 0 ? 0 : map.even_step(row_dim) * lazy.box.dims[row_dim].step * bytes;
  return true;
}

bool decode_rows(LazyTile& lazy, const host::Tile& tile) {
  constexpr int64_t most = 32 << 10;
  const int64_t rows = lazy.to.rows(), cols = lazy.to.last_size();
  // Long rows are kept off multiples of 4 KB; short ones share a strip and follow each other.
  const int64_t stride = cols >= 512 ? cols + 32 : cols;
  const int64_t elements = rows * stride;
  if (elements > most || !host::is_real(lazy.to.format)) return false;
  if (lazy.decoded) return true;
  DecodedRows& to = lazy.rows;
  if (to.elements < elements) {
    to.data.reset(static_cast<float*>(std::aligned_alloc(128, static_cast<size_t>((elements * 4 + 127) / 128 * 128))));
    to.elements = to.data ? elements : 0;
    if (!to.data) throw std::bad_alloc();
  }
  to.stride = stride;
  host::unpack(tile, rows, 0, cols, to.data.get(), stride);
  lazy.decoded = true;
  return true;
}

}  // namespace spyre::card
