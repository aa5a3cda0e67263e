// ElementProgram: the nodes of a kernel as vector steps over a tile. Shared by the forms that run Maps (rows, and the
// epilogues of matmul and attention).
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "lower/forms.h"
#include "lower/kernel_builder.h"
#include "plan/axes.h"

namespace spyre::lower {

/// The tile that a form works on: which axes are buffer dimensions and by which ranges they run now.
struct Tile {
  std::vector<int> axes;       ///< buffer dimensions, in order: axis ids. Other axes are points
  std::vector<Id> range;       ///< per axis of the Axes: the range whose indices it has now (size 1 for points)
  std::vector<int64_t> shape;  ///< buffer shape per `axes` (the most that the range has)
};

/// Writes loads, vector steps and stores of nodes (Maps; Reduces over tile axes) over one tile.
///
/// A value that stays in LX keeps its register precision (f32, i32; predicates as 0 and 1), as fused code of PyTorch
/// does; one that is stored is rounded by its store, and later nodes of the kernel still read the register value.
class ElementProgram {
 public:
  ElementProgram(KernelBuilder& builder, const Context& context, const plan::Axes& axes, Emitted& emitted);

  /// Makes the formals of everything that nodes[first..] read from and write to memory; call before the first nest.
  void declare(size_t first);
  /// A value computed by the form itself (the accumulator of a matmul): what readers at this point use. f32 or i32
  /// buffer.
  void provide(graph::Id value, BufRef buffer);
  /// Emits nodes[first..last) on the tile: loads of what they read (from `share`d axes as the form tells), vector
  /// steps, stores of what has a home in memory.
  void emit(size_t first, size_t last, const Tile& tile, int32_t slots);

  /// graph::Expr as a vector expression: `operand(load)` gives the buffer operand of a load, `iota(dim)` the index
  /// along a dimension of the node's space.
  program::VecExpr expression(const graph::Expr& expr, const std::function<program::VecExpr(graph::Id load)>& operand,
                              const std::function<program::VecExpr(int dim)>& iota);

 private:
  KernelBuilder& builder_;
  const Context& context_;
  const plan::Axes& axes_;
  Emitted& emitted_;
};

}  // namespace spyre::lower
