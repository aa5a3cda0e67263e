// The matmul form: Contracts that multiply one `a` (usually one; q, k and v, or gate and up of a gated network), and
// what follows on their accumulator tiles: Maps, and Reduces of the rows (norms).
//
// KernelPlan::grid: parts of each axis of MatmulShape::parallel, then parts of the depth axis (sums over these are
// added by psum). KernelPlan::tile: rows, lanes, depth.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/axes.h"
#include "plan/forms.h"

namespace spyre::plan {

/// Contracts brought to rows x depth times depth x lanes: the axes of their tiles, and which operand stands where. All
/// have the same space and the same tiles, and read `a` alike.
struct MatmulShape {
  Axes axes;  ///< the common axes; those of `row`, `lane` and `depth` that there are none of stand at the
              ///< end, with size 1
  std::vector<size_t> products;         ///< the Contracts among axes.nodes; the first is node 0
  std::vector<int> parallel;            ///< axes of batch, m and n, ascending
  std::vector<int> terms;               ///< axes of k but `depth`, ascending
  int row = -1, lane = -1, depth = -1;  ///< the axes that tiles extend along; all others are walked one by one
  bool swapped = false;     ///< rows are the Contract's n, lanes its m: where the result's memory runs along m
  bool empty = false;       ///< there are no terms: the sum is 0 (the empty axes have size 1 here)
  bool on_pt = true;        ///< else sfp.mm, on operands in `compute`
  bool trap = false;        ///< a sum outside int32 stops the program
  bool whole_rows = false;  ///< a Reduce follows: one tile has all lanes
  base::Format compute = base::Format::dl16;  ///< of the operands that are multiplied
  base::Format sum = base::Format::f32;       ///< of the accumulator
  /// Per product: its b is read from this repack of the plan, reads[1] is of the copy (or none).
  std::vector<int32_t> repacks;

  /// Which of the Contract's reads is rows x depth (0) and which depth x lanes (1).
  int read_of(int side) const { return swapped ? 1 - side : side; }
  /// What all products read is the same on this side.
  bool shared(int side) const { return read_of(side) == 0; }
  const AxisRef& operand(int side, size_t product = 0) const {
    return axes.nodes[products[product]].reads[static_cast<size_t>(read_of(side))];
  }
  int32_t repack_of(int side, size_t product) const { return shared(side) ? graph::none : repacks[product]; }
  bool is_product(size_t node) const { return std::find(products.begin(), products.end(), node) != products.end(); }
  bool is_tile_axis(int axis) const { return axis == row || axis == lane || axis == depth; }
  /// Dimensions of an operand's tile: axes, in the order in which it is loaded; `turned`: the other way round than it
  /// is multiplied, because memory runs so.
  struct Tile {
    int outer = -1, inner = -1;
    bool turned = false;
  };
  Tile tile_of(int side, size_t product = 0) const;
  /// Axes of `b` in the order of its repacked copy, outermost first.
  std::vector<int> repack_order() const;

  /// Of the kernel's results in memory: parts of an axis begin at multiples of `align` (0: it can't be divided), as no
  /// stick may be shared by two cores.
  std::vector<int64_t> align;
};

/// Throws Error(unimplemented) naming what the form can't do. `repacked`: honour the plan's repacks.
MatmulShape matmul_shape(const Context& context, std::span<const graph::Id> nodes, bool repacked = true);

/// Elements of one part when an axis is divided in `parts`; the last ones may be smaller or empty.
int64_t matmul_chunk(const MatmulShape& shape, int axis, int64_t parts);

/// What a plan does to one axis: elements, of one core, of one tile.
struct AxisParts {
  int64_t size = 1, chunk = 1, tile = 1;
  int64_t trips() const { return (chunk + tile - 1) / tile; }
};
/// Per axis.
std::vector<AxisParts> matmul_parts(const MatmulShape& shape, const KernelPlan& kernel);

/// Axes of a tile's loops over parallel axes, outermost first: the operand that is read again more cheaply varies
/// within.
std::vector<int> matmul_order(const MatmulShape& shape, const KernelPlan& kernel);

/// Of the memory of a value.
base::Format memory_format(const Context& context, graph::Id value);

/// How a view's elements share sticks (program::verifier::StickShape over the axes): for the stores of a form.
struct StoreShape {
  bool known = false;
  int axis = -1;  ///< indices along it are together in sticks of `block`
  int64_t block = 1, phase = 0;

  /// Whether tiles of so many indices along `axis`, which has `size`, may share sticks with their neighbours.
  bool tiles_share_sticks(int64_t tile, int64_t size) const { return tile < size && (phase != 0 || tile % block != 0); }
  /// Adds what this store wants of parts of these axes: MatmulShape::align.
  void add_alignment(std::span<const int> axes, std::vector<int64_t>& align) const;
};
StoreShape store_shape(const AxisRef& ref, const std::vector<int64_t>& sizes, std::span<const int> walked,
                       const layout::Geometry& geometry);

}  // namespace spyre::plan
