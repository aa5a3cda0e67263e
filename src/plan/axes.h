// Axes: the common index space of the nodes of one kernel.
//
// Nodes of a kernel name their spaces differently ([8,128,384] here, [1024,384] there, [8,128,1] for a norm's scale).
// What they share is found by refining all of them to common axes: every dimension of every node becomes a run of
// consecutive axes, every read and result a stride per axis. Then axes are merged again where every reference allows
// it. plan/ asks whether nodes may share a kernel, lower/ loops over the axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace spyre::plan {

/// One reference of a node over the axes: storage element offset + sum(stride x axis index).
struct AxisRef {
  graph::Id value = graph::none;  ///< after folding; of a value that `replaces` an input: that input
  int64_t offset = 0;
  std::vector<int64_t> strides;  ///< per axis; 0 where the node has no such axis, too; negative where a read is flipped
  std::vector<int64_t> gathers;  ///< storage elements per index, of a load's gathers
  bool internal = false;  ///< produced by an earlier node of the kernel, at the same point: never read from memory
  bool operator==(const AxisRef&) const = default;
};

struct NodeAxes {
  graph::Id node = graph::none;
  std::vector<bool> has;               ///< per axis: part of the node's space
  std::vector<bool> reduced;           ///< per axis: reduced by this node (Reduce's dims, Contract's k)
  std::vector<std::vector<int>> dims;  ///< per dimension of the node's space: its axes, outermost first (none: size 1).
                                       ///< An axis merged of several dimensions stands with the outermost; an iota's
                                       ///< dimension is never merged with others. All lists in a row: the node's order
  std::vector<AxisRef> reads;          ///< graph::reads(kind), in order (Map, Reduce, Contract: one per load)
  std::vector<AxisRef> results;        ///< per result
};

struct Axes {
  std::vector<int64_t> sizes;  ///< none is 1 (no axis at all for a single point); 0 only when the node stands alone
  std::vector<graph::Contract::Role> roles;  ///< per axis: a Contract's, when the first node is one, else empty
  std::vector<NodeAxes> nodes;
};

/// The common axes of these nodes (Maps and Reduces, or a Contract first and Maps, Reduces and more Contracts behind
/// it), or nothing when they have
/// none: spaces that don't refine to each other; a read of a value made inside at another point than the reader's
/// (which needs memory), or by an index; a folded value that can't be read through; a node with an empty space beside
/// others. A node after a Reduce or Contract that uses reduced axes of a value that no longer has them is fine when it
/// reads that value with stride 0 there (broadcast: normalisation).
/// Nodes may still have axes that others lack (a column's bias, a reduction's own axis): NodeAxes::has says so.
///
/// Axes stand in the order of the first node's dimensions that has most axes. Neighbours are merged when every node has
/// both or neither, with the same role and reduction, every reference moves by one as inner size x the other's, and no
/// iota tells them apart (an iota of a node keeps that node's dimensions apart), and a result in memory
/// doesn't lose its sticks (rows of 50 elements are not merged: cores and trips own whole rows).
std::optional<Axes> common_axes(const graph::Graph& instance, std::span<const graph::Id> nodes,
                                const std::vector<Home>& homes);

/// The reference by which a node really reads: through folded values (and into the input that a value replaces). Its
/// dimensions may be those of `ref` split (row-major) where a copy that was folded has several strides along one.
/// Nothing when the reference doesn't follow the dimensions of the copy.
std::optional<graph::Ref> refine(const graph::Ref& ref, const graph::Graph& instance, const std::vector<Home>& homes);

/// refine(), with the dimensions of `ref`. Throws Error(unimplemented) where a dimension would have to be split.
graph::Ref resolve(const graph::Ref& ref, const graph::Graph& instance, const std::vector<Home>& homes);

using graph::number;
using graph::numbers;

/// Whether the expression, or one of its arguments, has this leaf.
bool has_leaf(const graph::Expr& expr, graph::Expr::Leaf leaf);

}  // namespace spyre::plan
