// The rows and the reduce form: nodes that walk common axes, in tiles.
//
// KernelPlan::grid: parts of each axis of the shape; KernelPlan::tile: elements of each axis that a tile has at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/axes.h"
#include "plan/forms.h"

namespace spyre::plan {

/// Maps and Reduces over common axes.
struct RowsShape {
  Axes axes;
  int lane = -1;               ///< the axis along which buffers have their lanes (-1: a single point)
  std::vector<bool> whole;     ///< per axis: resident as a whole (what the Reduces reduce; what a stored result lacks)
  std::vector<int64_t> align;  ///< per axis: parts begin at multiples, as no stick may be written by two cores
};

/// Nothing when the nodes are no kernel of the form.
std::optional<RowsShape> rows_shape(const graph::Graph& graph, const std::vector<Home>& homes,
                                    std::span<const graph::Id> nodes);

/// A Reduce of any axes: one of them in tiles, the other reduced ones point by point.
struct ReduceShape {
  Axes axes;
  int lane = -1;
  int reduced = -1;  ///< the reduced axis that tiles extend along (it may be the lane axis)
  std::vector<int64_t> align;
};

std::optional<ReduceShape> reduce_shape(const graph::Graph& graph, const std::vector<Home>& homes, graph::Id node);

/// Elements of an axis that one part has, the last one aside.
int64_t rows_part(int64_t size, int64_t parts, int64_t align);

/// Bytes of LX that a tile needs at most (`tile` per axis).
int64_t rows_tile_bytes(const graph::Graph& graph, const std::vector<Home>& homes, const Axes& axes, int lane,
                        std::span<const int64_t> tile, int32_t slots);

}  // namespace spyre::plan
