// How a temp may lie in device memory.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "layout/geometry.h"

namespace spyre::plan {

/// Geometries for a temp of this value, the one to start with first, all different:
/// - columns: dimensions but the lanes as one, a stick of every row after the other ([sticks of a row, rows, stick]):
///   runs as long as there are rows, whatever the dimensions are called;
/// - rows: one row after the other (where rows fill sticks);
/// - both also with inner dimensions shorter than a stick (heads of 32) merged until they fill some;
/// - the placement that a tensor of this shape has by default.
/// What is cheap for whom is said by the kernels that touch the value. One of more than `span_bytes`, of which a core
/// may reach no more in a kernel, starts with its rows: parts of it are together. Sizes are numbers.
std::vector<layout::Geometry> placements(const graph::Value& value, bool ieee, int64_t span_bytes);

}  // namespace spyre::plan
