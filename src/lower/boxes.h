// Boxes written into a result: the kernels of Place, and the copy that a Scatter starts from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lower/box_loops.h"

namespace spyre::lower {

/// A box of the result and what is written there: a view of a value, or one number.
struct BoxPart {
  std::optional<Placed> from;                 ///< its view has the box's sizes; none: `fill`
  base::HostType type = base::HostType::f32;  ///< to which values of another format are rounded
  double fill = 0;
  std::vector<int64_t> start, step, sizes;  ///< per dimension of the result
};

/// Parts painted over each other, the last wins, as layers of parts that don't overlap; what lies in a later layer is
/// written over the earlier ones. If the first part covers the whole result, so does the first layer.
std::vector<std::vector<BoxPart>> painted(const std::vector<BoxPart>& parts);

/// How the boxes of a layer are written.
struct BoxShares {
  int32_t rows = 1, lanes = 1;  ///< cores for the dimensions before the stick's, and for that one
  int64_t tile_bytes = 1 << 16;
  bool shared = false;  ///< each stick belongs to one core, whichever box it is part of: only dimensions that every box
                        ///< spans are divided; else every box is divided by itself
};
/// The kernel that writes the boxes of one layer into `to`, and nothing else.
Emitted write_boxes(const Context& context, const program::Loc& loc, const Placed& to,
                    const std::vector<BoxPart>& parts, const BoxShares& shares);

/// The whole of `to` copied from a view of equal sizes.
BoxPart whole_copy(const Placed& to, const Placed& from);
BoxPart whole_fill(const Placed& to, double fill);

}  // namespace spyre::lower
