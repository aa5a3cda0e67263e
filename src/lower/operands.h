// What the element expressions of a Scan or Scatter read, over a tile of the node's space.
#pragma once

#include <span>
#include <vector>

#include "lower/box_loops.h"

namespace spyre::lower {

/// Tiles of a node's loads, one buffer each. Dimensions along which a load doesn't move have size 1 in its buffer.
class Operands {
 public:
  /// Loads what `exprs` read of the tile, in the block that is open. `order`: the dimensions of the space that the tile
  /// has, in buffer order. Throws Error(unimplemented) for a load with an index of its own.
  Operands(Writer& writer, const Context& context, const program::Loc& loc, std::span<const graph::Load> loads,
           std::span<const graph::Expr* const> exprs, std::span<const size_t> order, const TileWalk& walk);

  /// The expression over the tile, or over its position `at` (a loop range inside the tile's first dimension).
  program::VecExpr expression(const graph::Expr& expr, Id at = none) const;

 private:
  struct Operand {
    Id buffer = none;
    bool is_bool = false;
    bool moves_first = false;  ///< along the first dimension
  };
  Writer& writer_;
  const Context& context_;
  std::vector<size_t> order_;
  TileWalk walk_;
  std::vector<Operand> operands_;
};

/// What a store of this type needs of an integer expression: 8 and 16 bit values have their width.
program::VecExpr wrapped(program::VecExpr value, base::HostType type);
/// The format in which values of a type stay in LX: f32, or i32.
Format lx_format(base::HostType type);

}  // namespace spyre::lower
