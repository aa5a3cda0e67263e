// Loops over a box: how its dimensions are divided over cores and cut into tiles, and the entries that walk a tile.
// Shared by the forms that move whole boxes (place, scatter, scan, sort).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lower/forms.h"
#include "lower/kernel_builder.h"

namespace spyre::lower {

/// A view of a value in its home, with the allocation it lies in.
struct Placed {
  graph::Id value = graph::none;  ///< whose memory it is (the input that a value replaces), or
  int32_t scratch = graph::none;  ///< scratch memory of this number
  layout::HostView view;
  layout::Geometry geometry;
  Format format = Format::dl16;
};
/// The memory of a whole value: its own, or the part of an input that it replaces.
Placed placed(const Context& context, graph::Id value);
/// What a reference reads, with the homes of folded values looked through. Throws Error(unimplemented) where it has no
/// view.
Placed placed(const Context& context, const graph::Ref& ref);

/// How a box is divided: per dimension the parts given to cores, and the indices of a tile.
struct Division {
  std::vector<int32_t> parts;
  std::vector<int64_t> share;  ///< indices of a part
  std::vector<int64_t> tile;   ///< at most the share
  /// Grid sizes of the dimensions with several parts, in order (at least one grid dimension).
  std::vector<int32_t> grid() const;
  /// The product of the parts.
  int32_t cores() const;
};
/// What may be given to a division of a box.
struct Shares {
  int32_t rows = 1;   ///< cores for the dimensions before the last
  int32_t lanes = 1;  ///< cores for the last one, in whole sticks
  int64_t tile_bytes = 1 << 16;
  std::vector<bool> divisible;  ///< per dimension; empty = all
  std::vector<bool> whole;      ///< per dimension: never cut into tiles; empty = none
};
Division divide(const std::vector<int64_t>& sizes, Format format, const Shares& shares);

/// One tile: per dimension the range that walks it, or none where the tile is the whole dimension.
struct TileWalk {
  std::vector<Id> range;
  std::vector<int64_t> sizes;
  std::vector<int64_t> tile;  ///< shape of a buffer that holds it
  /// Indices base + step x (the tile's indices) of a dimension.
  Entry entry(size_t dim, int64_t base = 0, int64_t step = 1) const;
  std::vector<Entry> entries() const;
  /// First index, and number of indices, of the tile.
  IntExpr first(size_t dim) const;
  IntExpr count(size_t dim) const;
};

/// Walks the tiles of a box: core ranges over grid dimensions `first_grid`, ... for the dimensions with several parts,
/// then loops. The nest must be open, with the division's grid.
void for_each_tile(KernelBuilder& builder, const std::vector<int64_t>& sizes, const Division& division,
                   int64_t max_trips, const std::function<void(const TileWalk&)>& body, Id first_grid = 0);

/// The order of dimensions that puts the one whose indices follow a stick's lanes last (else the last one with more
/// than one index); dimensions of size 1 are left out, at least one is kept. A view without dimensions has none.
std::vector<size_t> lanes_last(const layout::HostView& view, const layout::Geometry& geometry);
/// The view with these dimensions only, in this order; `no_dimension`, or without any: one of size 1.
constexpr size_t no_dimension = SIZE_MAX;
layout::HostView permuted(const layout::HostView& view, std::span<const size_t> order);

/// A kernel being written, with its actuals.
struct Writer {
  Emitted emitted;
  KernelBuilder builder;
  Writer(std::string_view name, int32_t cores, const program::Loc& loc) : builder(name, cores) { builder.loc(loc); }
  /// The formal for this view of this memory, made at first need.
  Id formal(const Context& context, const Placed& memory, program::Direction direction);
  Emitted finish();
};

}  // namespace spyre::lower
