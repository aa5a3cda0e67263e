#include "card/tile_in_memory.h"

#include <new>

#include "card/symbol_map.h"

namespace spyre::card {

namespace {

/// Where a box lies: bytes from the allocation's start and between rows.
struct Place {
  int64_t start = 0, row_stride = 0, rows = 1, cols = 1;
};
bool lies_evenly(const SymbolMap& map, const MemBox& box, Place& place) {
  if (!map.separable() || map.stick_step() < 0 || box.rank == 0) return false;
  const int last = box.rank - 1;
  int64_t at = map.constant(), step = 0;
  int row_dim = -1;
  for (int d = 0; d <= last; ++d) {
    const auto& dim = box.dims[d];
    if (dim.base < 0 || dim.extent <= 0 || dim.base + dim.step * (dim.extent - 1) >= map.size(d)) return false;
    at += map.part(d, dim.base);
    if (d == last || dim.extent == 1) continue;
    if (row_dim >= 0) return false;
    step = map.even_step(d, dim.base, dim.base + dim.step * (dim.extent - 1));
    if (step < 0) return false;
    row_dim = d;
  }
  const auto& inner = box.dims[last];
  if (inner.step != 1 || (inner.extent > 1 && inner.stride != 1) || inner.base % map.stick_lanes() != 0) return false;
  const int64_t bytes = map.element_bytes();
  place.start = at * bytes;
  place.cols = inner.extent;
  if (row_dim < 0) return true;
  place.rows = box.dims[row_dim].extent;
  place.row_stride = step * box.dims[row_dim].step * bytes;
  return true;
}

}  // namespace

const MadeInMemory* made_in_memory(LazyTile& lazy) {
  if (lazy.has_values()) return nullptr;
  if (lazy.even == LazyTile::Even::unknown) {
    Place place;
    lazy.even = lies_evenly(*lazy.map, lazy.box, place) ? LazyTile::Even::yes : LazyTile::Even::no;
    if (lazy.even == LazyTile::Even::no) return nullptr;
    MadeInMemory& made = lazy.made;
    made.rows = place.rows, made.cols = place.cols;
    made.tile.format = lazy.to.format;
    made.tile.data = lazy.memory + place.start;
    made.tile.row_stride = place.row_stride;
    made.tile.stick_stride = lazy.map->stick_step() * lazy.map->element_bytes();
    made.tile.lanes = lazy.map->stick_lanes();
  }
  return lazy.even == LazyTile::Even::yes ? &lazy.made : nullptr;
}

BoxInMemory box_of(const View& view, const std::byte* base, int64_t row_elements) {
  const int64_t first = (view.data - base) / base::format_bytes(view.format);
  return {first / row_elements, first % row_elements, view.rows(), view.last_size()};
}

bool box_in_memory(const MadeInMemory& made, const BoxInMemory& box, host::Tile& tile) {
  if (box.row + box.rows > made.rows || box.column + box.cols > made.cols) return false;
  const int64_t per_stick = made.tile.per_stick(), lane = box.column % per_stick;
  if (lane != 0 && lane + box.cols > per_stick) return false;
  tile = made.tile;
  if (lane != 0) tile.lanes = box.cols;  // what follows in the stick isn't its business
  tile.data +=
      box.row * tile.row_stride + box.column / per_stick * tile.stick_stride + lane * base::format_bytes(tile.format);
  return true;
}

bool store_in_memory(const SymbolMap& map, std::byte* memory, const MemBox& box, const View& from,
                     host::MutableTile& tile) {
  const int64_t lanes = base::elements_per_stick(from.format);
  if (from.last_size() % lanes != 0 || map.stick_lanes() != lanes) return false;
  Place place;
  if (!lies_evenly(map, box, place) || place.rows != from.rows() || place.cols != from.last_size()) return false;
  tile.format = from.format;
  tile.data = memory + place.start;
  tile.row_stride = place.row_stride;
  tile.stick_stride = map.stick_step() * map.element_bytes();
  return true;
}

float* room_for(DecodedRows& to, int64_t rows, int64_t cols) {
  constexpr int64_t most = 32 << 10;
  // Long rows are kept off multiples of 4 KB; short ones share a strip and follow each other.
  const int64_t stride = cols >= 512 ? cols + 32 : cols, elements = rows * stride;
  if (elements > most) return nullptr;
  to.stride = stride;
  if (to.elements < elements) {
    to.data.reset(static_cast<float*>(std::aligned_alloc(128, static_cast<size_t>((elements * 4 + 127) / 128 * 128))));
    to.elements = to.data ? elements : 0;
    if (!to.data) throw std::bad_alloc();
  }
  return to.data.get();
}

bool decode_rows(LazyTile& lazy, const MadeInMemory& made) {
  if (!host::is_real(lazy.to.format)) return false;
  if (lazy.decoded) return true;
  const host::Tile& tile = made.tile;
  const int64_t rows = made.rows, cols = made.cols;
  float* to = room_for(lazy.rows, rows, cols);
  if (!to) return false;
  host::unpack(tile, rows, 0, cols, to, lazy.rows.stride);
  lazy.decoded = true;
  // Loops usually go on with the rows that follow, while the hardware's prefetchers stop at the end of each short run.
  if (tile.row_stride == base::stick_bytes) {
    const int64_t sticks = (cols + tile.per_stick() - 1) / tile.per_stick();
    for (int64_t k = 0; k < sticks; ++k) {
      const std::byte* next = tile.data + k * tile.stick_stride + rows * tile.row_stride;
      for (int64_t i = 0; i < rows * tile.row_stride; i += 64) __builtin_prefetch(next + i, 0, 2);
    }
  }
  return true;
}

}  // namespace spyre::card
