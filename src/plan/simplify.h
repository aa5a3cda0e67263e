// What prepare() does to the nodes of an instance.
#pragma once

#include "graph/graph.h"

namespace spyre::plan {

/// Drops nodes that make no elements (their values have no producer then), makes maps of constants of sums over
/// nothing, and copies of boxes and scatters that change nothing. Afterwards no node walks an empty space.
void remove_empty(graph::Graph& graph);

/// Lets readers of a node that an earlier one equals read the earlier one (a mask that every layer makes again). Nodes
/// are pure: inputs change only after everything has read them. What nobody reads any more is the caller's to remove.
void share_equal(graph::Graph& graph);

/// Makes small Maps without loads (full, arange, masks of indices) part of the expressions that read them. The Maps
/// stay for other readers; what nobody reads any more is the caller's to remove.
void inline_constants(graph::Graph& graph);

/// Loads whose index is a sum of indices of the space (a position's row of a table) become plain strided ones.
void affine_gathers(graph::Graph& graph);

}  // namespace spyre::plan
