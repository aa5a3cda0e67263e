// What prepare() does to the nodes of an instance.
#pragma once

#include <optional>
#include <vector>

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

/// Takes out of the indices of loads what the sizes of the space decide: checks that can't fail, branches never taken.
void simplify_indices(graph::Graph& graph);

/// Loads whose index is a sum of indices of the space (a position's row of a table) become plain strided ones.
void affine_gathers(graph::Graph& graph);

/// The same for values, and drops the loads that nothing uses then; those that check an index stay. Targets of scatters
/// stay as they are: a plain index of the space among them means that it isn't checked.
void drop_known(graph::Graph& graph);

/// Maps make only what differs: a dimension along which nothing that they read moves gets size 1 when all readers can
/// repeat it by a stride of 0 (a padding mask, the same for every query).
void make_once(graph::Graph& graph);

/// Lets readers of a value that is another one in a wider type, number by number (float16 as float32), read the narrow
/// one: half the bytes.
void read_narrow(graph::Graph& graph);

/// The index along each dimension of `value` at a point of a reader's space: constant + sum(factor x iota).
struct Index {
  int64_t constant = 0;
  std::vector<std::pair<int32_t, int64_t>> terms;  ///< dimension of the reader's space, factor
};
/// Nothing when the reference doesn't follow the value's dimensions.
std::optional<std::vector<Index>> indices(const graph::Value& value, const graph::Ref& ref);

}  // namespace spyre::plan
