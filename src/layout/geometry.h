// Geometry: where each storage element of an allocation lives on the device. Access: a view's box as stick runs.
//
// A view (sizes, strides, offset in host elements) is affine in its indices: o = offset + sum(stride x index). The
// allocation's geometry turns o into a device element by digits: sum over device dimensions of
// ((((o div div1) mod mod1) div div2) mod mod2) x stride. So every ATen view is expressible; only the cost differs
// (docs/design.md section 2).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/formats.h"
#include "layout/spyre_tensor_layout.h"

namespace spyre::layout {

/// A tensor's view of its storage, in elements. sizes and strides have equal length; strides may be 0 (expand) and, in
/// reads, overlap; never negative.
struct HostView {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  bool operator==(const HostView&) const = default;
  int64_t numel() const;
  /// Smallest and one past the largest storage element touched; {0, 0} when numel() is 0.
  std::pair<int64_t, int64_t> extent() const;
  static HostView contiguous(std::vector<int64_t> sizes);
};

/// One device dimension: digit(o) = (((o div div1) mod mod1) div div2) mod mod2; contributes digit x stride device elements.
struct Digit {
  int64_t div1 = 1, mod1 = 1, div2 = 1, mod2 = 1;
  int64_t stride = 0;  ///< device elements
  bool operator==(const Digit&) const = default;
  int64_t of(int64_t o) const { return o / div1 % mod1 / div2 % mod2; }
};

/// The address map of one allocation. Device elements are numbered densely from 0; byte = element x format_bytes(format).
struct Geometry {
  base::Format format = base::Format::dl16;
  int64_t storage_elements = 0;  ///< host elements that have a place
  int64_t device_elements = 0;   ///< includes padding; a multiple of elements_per_stick(format)
  std::vector<Digit> digits;     ///< last one is the lane within the stick
  bool operator==(const Geometry&) const = default;

  int64_t device_bytes() const { return device_elements * base::format_bytes(format); }
  int64_t device_element(int64_t o) const;

  /// From a user layout and the tensor it lays out (sizes and strides in elements, offset 0). Throws Error(user) naming both
  /// when the layout has no place, or two different places, for a host element.
  static Geometry of(const SpyreTensorLayout& layout, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides);
  /// Plain row of `elements` in storage order (the 1-D layout): what raw-turned-typed, gappy and >6-D tensors use.
  static Geometry linear(base::Format format, int64_t elements);
  /// A seeded, legal permutation of this geometry's sticks and dimensions (SPYRE_LAYOUT=scramble): same elements, other places.
  Geometry scrambled(uint64_t seed) const;

  std::string to_text() const;                       ///< "geo{dl16 n=256000 d=256000 (div1,mod1,div2,mod2)*stride ...}"
  static Geometry from_text(std::string_view text);  ///< throws Error(program)
};

/// The default layout and geometry of a new tensor: contiguous -> default template; dense permuted strides -> dim_order;
/// gaps, overlaps, zero strides or more than 6 dimensions -> linear over storage elements (then `layout` is the 1-D one).
struct DefaultPlacement {
  SpyreTensorLayout layout;
  Geometry geometry;
};
DefaultPlacement default_placement(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, base::HostType type,
                                   bool ieee);

/// A run of consecutive device elements that are consecutive in the last box dimension: host box element (row-major linear
/// index within the box) `box_index + i` is device element `device_element + i`, i < count; never crosses a stick.
struct Run {
  int64_t box_index = 0;
  int64_t device_element = 0;
  int64_t count = 0;
};

/// A box of a view: per view dimension first index, number of indices and step (> 0). Indices outside the view are the
/// caller's to clip; an empty dimension makes an empty box.
struct Box {
  std::vector<int64_t> start, size, step;  ///< step empty = all 1
  static Box whole(const HostView& view);
};

/// How a (view, geometry) pair is reached; built once, used for many boxes. Immutable, thread-safe.
class Access {
 public:
  Access(const HostView& view, const Geometry& geometry);
  const HostView& view() const { return view_; }
  const Geometry& geometry() const { return geometry_; }

  /// True when a step of the last view dimension walks along a stick (whole stick runs); false: element gather.
  bool sticks_along_last() const { return lane_step_ == 1; }
  /// Calls `fn(run)` for the box in ascending box_index. Cost: about one call a stick, or one an element in a gather.
  template <typename Fn>
  void for_each_run(const Box& box, Fn&& fn) const;  // implemented in geometry_runs.h or here by the owner
  /// Appends the runs of the box.
  void runs(const Box& box, std::vector<Run>& out) const;
  /// Smallest and one past the largest device element of the box ({0, 0} when empty): for bounds, spans and overlap checks.
  std::pair<int64_t, int64_t> device_extent(const Box& box) const;
  /// Number of distinct sticks and of runs of the box (exact up to a bound, else an upper estimate): what timing prices.
  struct Traffic {
    int64_t sticks = 0;  ///< distinct sticks touched
    int64_t runs = 0;
  };
  Traffic traffic(const Box& box) const;

 private:
  HostView view_;
  Geometry geometry_;
  int64_t lane_step_ = 0;
};

}  // namespace spyre::layout
