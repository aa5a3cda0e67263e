// Access: a box of a view as places on the device, in stick runs, strips or patches.
//
// Built once per (view, geometry): it finds out for each digit of the geometry on which dimensions of the view it
// depends. When the place splits into one term per dimension ("separable": every view that keeps the allocation's
// dimensions apart), a box needs one pattern for its last dimension and an addition per row. Else each row is walked by
// itself. Both give the same runs; `separable()` tells which it is.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "layout/geometry.h"
#include "layout/view.h"

namespace spyre::layout {

/// A run of consecutive device elements that are consecutive in the last box dimension: host box element (row-major
/// linear index within the box) `box_index + i` is device element `device_element + i`, i < count; never crosses a
/// stick.
struct Run {
  int64_t box_index = 0;
  int64_t device_element = 0;
  int64_t count = 0;
  bool operator==(const Run&) const = default;
};

/// Box element `box_index + i` is device element `device_element + i x device_step`, i < count. May cross sticks.
struct Strip {
  int64_t box_index = 0;
  int64_t device_element = 0;
  int64_t count = 0;
  int64_t device_step = 0;  ///< device elements; 0 repeats one element, 1 is contiguous; may be negative
};

/// Strips repeated at even distances: row r, r < rows, is Strip{box_index + r x box_row_step, device_element + r x
/// device_row_step, count, device_step}.
struct Patch {
  int64_t box_index = 0, device_element = 0;
  int64_t rows = 0, box_row_step = 0, device_row_step = 0;
  int64_t count = 0, device_step = 0;
};

/// How a (view, geometry) pair is reached; built once, used for many boxes. Immutable, thread-safe.
class Access {
 public:
  /// Throws Error(user) when the view is malformed (HostView::check) or leaves the geometry's storage elements.
  Access(const HostView& view, const Geometry& geometry);
  const HostView& view() const { return view_; }
  const Geometry& geometry() const { return geometry_; }

  /// True when a step of the last view dimension walks along a stick (whole stick runs); false: element gather.
  bool sticks_along_last() const { return lane_step_ == 1; }
  /// True when the place is a sum of one term per view dimension: the fast way.
  bool separable() const { return separable_; }
  /// Place of one index of the view (one entry per dimension, inside it).
  int64_t device_element(const std::vector<int64_t>& index) const;

  /// Calls `fn(const Run&)` for the box in ascending box_index. Cost: about one call a stick, or one an element in a
  /// gather.
  template <typename Fn>
  void for_each_run(const Box& box, Fn&& fn) const;
  /// Calls `fn(const Strip&)` in ascending box_index, strips as long as they go. `across_rows` lets a strip continue
  /// from one row of the box into the next; else it ends with the last box dimension.
  template <typename Fn>
  void for_each_strip(const Box& box, bool across_rows, Fn&& fn) const;
  /// Calls `fn(const Patch&)`: the box in as few pieces as found, together covering it once, *not* in order of
  /// box_index. For bulk copies: the default layout of a matrix is one patch per column of sticks.
  template <typename Fn>
  void for_each_patch(const Box& box, Fn&& fn) const;
  /// Appends the runs of the box.
  void runs(const Box& box, std::vector<Run>& out) const;
  /// True when the whole box is one ascending piece of device elements in box order; then `first` is its start.
  bool contiguous_block(const Box& box, int64_t& first) const;

  /// Smallest and one past the largest device element of the box ({0, 0} when empty): for bounds, spans and overlap
  /// checks. Exact when every dimension of the box moves evenly or has at most 4,096 indices (separable), else an
  /// enclosing range.
  std::pair<int64_t, int64_t> device_extent(const Box& box) const;
  /// Number of distinct sticks and of runs of the box: what timing prices.
  struct Traffic {
    int64_t sticks = 0;  ///< distinct sticks touched
    int64_t runs = 0;    ///< calls for_each_run would make
    bool exact = true;   ///< false: upper estimates
  };
  /// Closed form for separable accesses whose dimensions move by whole sticks but for one; else counted up to 512 runs,
  /// else estimated from above.
  Traffic traffic(const Box& box) const;

 private:
  friend class Walk;
  void analyse();

  HostView view_;
  Geometry geometry_;
  int64_t lane_step_ = 0;
  bool separable_ = true;
  std::vector<Digit> digits_;       // of geometry_, merged where two are one: fewer divisions
  std::vector<uint8_t> even_;       // per view dimension: a step moves by even_step_, whatever the index
  std::vector<int64_t> even_step_;  // device elements
};

/// Pairs two boxes of equal size, e.g. of two tensors: calls `fn(src_element, dst_element, count)` for pieces
/// consecutive on both sides. The merged order is that of box_index. Throws Error(user) when the box sizes differ.
template <typename Fn>
void for_each_common_run(const Access& src, const Box& src_box, const Access& dst, const Box& dst_box, Fn&& fn);
/// The same in strips: `fn(src_element, src_step, dst_element, dst_step, count)`, steps in device elements.
template <typename Fn>
void for_each_common_strip(const Access& src, const Box& src_box, const Access& dst, const Box& dst_box, Fn&& fn);

}  // namespace spyre::layout

#include "layout/access_walk.h"  // IWYU pragma: export
