// ElementAccess: what the nodes of a kernel read from memory and write to it, as formals, views and entries over a
// tile.
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
  std::vector<Id> range;       ///< per axis of the Axes: the range whose indices it has now (size 1 for points); none:
                               ///< all of the axis
  std::vector<int64_t> shape;  ///< buffer shape per `axes` (the most that the range has)

  int position(int axis) const;   ///< in `axes`, or -1
  Tile only(int position) const;  ///< the tile of one of its axes alone; -1: of none
  std::vector<int64_t> ones() const { return std::vector<int64_t>(axes.empty() ? 1 : axes.size(), 1); }
};

/// True when the range has its full size in every trip and on every core.
bool always_full(const KernelBuilder& builder, Id range);

/// A data-dependent dimension of an access: what the index buffer counts.
struct IndexDim {
  int position = -1;     ///< tile dimension that it walks, or -1: one index
  bool absorbs = false;  ///< the axis' own stride is part of the index
  int64_t size = 1, stride = 1, offset = 0;
  program::OnOutside outside = program::OnOutside::trap;
};

class ElementAccess {
 public:
  ElementAccess(KernelBuilder& builder, const Context& context, const plan::Axes& axes, Emitted& emitted);

  /// A buffer that holds what the node's load reads over the tile (sizes of 1 where it doesn't vary), loaded once per
  /// tile; its box is the valid part. `index(dim)` gives the index of a load with gathers, and says what it counts.
  BufRef load(size_t node, graph::Id load, const Tile& tile, int32_t slots,
              const std::function<BufRef(const Tile& sub, IndexDim& dim)>& index);
  /// Stores a buffer over the tile as result `result` of the node.
  void store(size_t node, size_t result, const BufRef& from, const Tile& tile);

  /// Loads of this tile are not there any more; those that were kept are.
  void next_tile() { loaded_ = kept_; }
  void keep() { kept_ = loaded_; }
  void forget() {
    kept_.clear();
    loaded_.clear();
  }

  /// A buffer with the valid part of the tile as its box; sizes of 1 broadcast.
  BufRef boxed(Id buffer, const Tile& tile) const;
  /// Tile positions along which an expression of the node varies.
  std::vector<int> varies(size_t node, const graph::Expr& expr, const Tile& tile) const;
  const graph::Load& load_of(size_t node, graph::Id load) const;
  /// The index along axis `axis` on this tile: i32, over the tile's dimensions.
  program::VecExpr axis_index(int axis, const Tile& tile) const;

 private:
  struct Dim {
    std::vector<std::pair<int, int64_t>> points;  ///< axes and what one step along them is in this dimension
    int position = -1;                            ///< tile dimension
    bool flipped = false, index = false;
    int64_t size = 1, stride = 1;
  };
  struct Layout {
    std::vector<Dim> dims;
    layout::HostView view;
  };
  Layout layout(const plan::AxisRef& ref, const std::vector<int>& tile_axes, const IndexDim* index) const;
  std::vector<Entry> entries(const plan::AxisRef& ref, const Layout& layout, const Tile& tile, const BufRef& index,
                             const IndexDim& dim);
  BufRef flip_index(int position, const Tile& tile);
  void scan(const std::vector<int>& tile_axes);
  Id formal(const plan::AxisRef& ref, const layout::HostView& view, bool stores);
  bool depends(size_t node, const graph::Expr& expr, int axis) const;
  bool depends(size_t node, graph::Id load, int axis) const;

  struct Use {
    graph::Id value;
    layout::HostView view;
    bool loads = false, stores = false;
    Id formal = none;
  };
  using Key = std::tuple<std::vector<int>, graph::Id, int64_t, std::vector<int64_t>, size_t, graph::Id>;

  KernelBuilder& builder_;
  const Context& context_;
  const plan::Axes& axes_;
  Emitted& emitted_;
  std::vector<Use> uses_;
  std::vector<std::vector<int>> scanned_;
  std::map<Key, BufRef> loaded_, kept_;
};

}  // namespace spyre::lower
