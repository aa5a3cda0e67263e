// ElementProgram: the nodes of a kernel as vector steps over a tile. Shared by the forms that run Maps (rows, and the
// epilogues of matmul and attention).
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "lower/element_access.h"
#include "lower/forms.h"
#include "lower/kernel_builder.h"
#include "plan/axes.h"

namespace spyre::lower {

/// Writes loads, vector steps and stores of nodes (Maps; Reduces over one tile axis) over one tile.
///
/// A value that stays in LX keeps its register precision (f32, i32; predicates as 0 and 1), as fused code of PyTorch
/// does; one that is stored is rounded to its memory's format, and later nodes of the kernel read that. Values of 8 and
/// 16 bits have their width everywhere. A value with one reader over the same axes is part of the reader's expression
/// and has no buffer; buffers of the others are reused when their last reader has run.
class ElementProgram {
 public:
  ElementProgram(KernelBuilder& builder, const Context& context, const plan::Axes& axes, Emitted& emitted);

  /// A value that the form itself computes (the accumulator of a matmul), of a node that is no Map or Reduce: what
  /// readers at this point use. f32 or i32 buffer over the tile.
  void provide(graph::Id value, BufRef buffer);
  /// Loads, in the block that is open, what nodes[first..last) read that doesn't move along the `moving` axes (whose
  /// ranges needn't exist yet): it stays until forget().
  void preload(size_t first, size_t last, const Tile& tile, const std::vector<bool>& moving);
  void forget() { access_.forget(); }
  /// Emits the Maps and Reduces of nodes[first..last) on the tile: loads of what they read, vector steps, stores of
  /// what has a home in memory. Buffers belong to the block that is open. Throws Error(program) when the tile is not
  /// one for these nodes: an index that varies along two axes of the tile.
  void emit(size_t first, size_t last, const Tile& tile, int32_t slots);

  /// What next_tile() forgets: loads are done again. emit() does it by itself.
  void next_tile() { access_.next_tile(); }
  /// A buffer with the valid part of the tile as its box.
  BufRef boxed(Id buffer, const Tile& tile) const { return access_.boxed(buffer, tile); }

  /// For forms that reduce by themselves: the loads behind a Reduce's value, and the value as an expression over the
  /// tile. `covered`: its operands reach along all tile axes that the node has.
  struct Value {
    program::VecExpr expr;
    bool covered = false;
  };
  Value reduced_value(size_t node, const Tile& tile, int32_t slots);
  /// The expression in a buffer of its own, of the node's part of the tile.
  BufRef materialize(size_t node, program::VecExpr expr, const Tile& tile, bool pooled);
  /// Formats of the state buffers of a Reduce node.
  std::vector<Format> state_formats(size_t node) const;
  /// Results of a Reduce from its states (over the tile without the reduced axis), to memory or for later nodes.
  void finish_reduce(size_t node, const std::vector<BufRef>& states, const Tile& tile, int32_t slots);
  /// Emits the stores behind finish_reduce (emit() does it by itself).
  void flush();

  /// graph::Expr as a vector expression: `operand(load)` gives the buffer operand of a load, `iota(dim)` the index
  /// along a dimension of the node's space.
  program::VecExpr expression(const graph::Expr& expr, const std::function<program::VecExpr(graph::Id load)>& operand,
                              const std::function<program::VecExpr(int dim)>& iota);

  /// True when the value has a home in memory that this kernel must write.
  bool stored(graph::Id value) const;

 private:
  struct Made {
    size_t node = 0, result = 0;
    int64_t uses = 0;  ///< loads of it in expressions of the kernel that are not emitted yet
    bool inlined = false;
  };
  struct Held {
    BufRef ref;
    bool pooled = false;
  };

  const graph::Node& node_of(size_t node) const { return context_.graph.nodes[axes_.nodes[node].node]; }
  void count_uses(const graph::Expr& expr, size_t node);
  bool inlined(graph::Id value) const;
  bool may_inline(graph::Id value) const;
  bool inlines(graph::Id value, size_t node, size_t first, size_t last, const Tile& tile);
  int64_t operations_again(const Made& made, const Tile& tile) const;
  program::VecExpr convert(const graph::Expr& expr, size_t node, const Tile& tile, int32_t slots);
  program::VecExpr operand(size_t node, graph::Id load, const Tile& tile, int32_t slots);
  program::VecExpr value_in(const BufRef& ref, base::HostType type) const;
  BufRef index_of(size_t node, graph::Id load, const Tile& sub, IndexDim& dim);
  bool covers(const program::VecExpr& expr, size_t node, const Tile& tile) const;
  std::vector<int64_t> shape_of(size_t node, const Tile& tile, bool reduced) const;
  struct Pending {
    size_t node, result;
    BufRef from;
    Tile tile;
  };
  void store(size_t node, size_t result, const BufRef& from, const Tile& tile);
  void emit_map(size_t node, const Tile& tile, int32_t slots);
  void emit_reduce(size_t node, const Tile& tile, int32_t slots);
  void finish_value(size_t node, size_t result, program::VecExpr expr, const std::vector<int64_t>& shape,
                    const Tile& tile, int32_t slots);
  Id take(Format format, const std::vector<int64_t>& shape);
  void used(const graph::Expr& expr, size_t node);

  KernelBuilder& builder_;
  const Context& context_;
  const plan::Axes& axes_;
  Emitted& emitted_;
  ElementAccess access_;
  std::map<graph::Id, Made> made_;
  std::vector<size_t> home_;  ///< per node: the one in whose expression it is computed
  std::map<graph::Id, BufRef> provided_;
  std::map<graph::Id, Held> held_;
  std::map<std::pair<Format, std::vector<int64_t>>, std::vector<Id>> pool_;
  std::map<graph::Id, Id> scalars_;
  std::vector<Pending> pending_;
};

}  // namespace spyre::lower
