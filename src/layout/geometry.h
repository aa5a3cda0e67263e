// Geometry: where each storage element of an allocation lives on the device.
//
// A view (sizes, strides, offset in host elements) is affine in its indices: o = offset + sum(stride x index). The
// allocation's geometry turns o into a device element by digits: sum over device dimensions of
// ((((o div div1) mod mod1) div div2) mod mod2) x stride. So every ATen view is expressible; only the cost differs
// (docs/design.md section 2). How a view's box is walked: access.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/formats.h"
#include "layout/spyre_tensor_layout.h"
#include "layout/view.h"

namespace spyre::layout {

/// One device dimension: digit(o) = (((o div div1) mod mod1) div div2) mod mod2; contributes digit x stride device
/// elements.
struct Digit {
  int64_t div1 = 1, mod1 = 1, div2 = 1, mod2 = 1;
  int64_t stride = 0;  ///< device elements
  bool operator==(const Digit&) const = default;
  int64_t of(int64_t o) const { return o / div1 % mod1 / div2 % mod2; }
  /// One more than the largest digit over storage elements 0..elements-1 (1 when there are none).
  int64_t range(int64_t elements) const;
};

/// The address map of one allocation. Device elements are numbered densely from 0; byte = element x
/// format_bytes(format). Every storage element has its own place; places without one are padding and carry no meaning.
struct Geometry {
  base::Format format = base::Format::dl16;
  int64_t storage_elements = 0;  ///< host elements that have a place
  int64_t device_elements = 0;   ///< includes padding; a multiple of elements_per_stick(format)
  std::vector<Digit> digits;     ///< last one is the lane within the stick
  bool operator==(const Geometry&) const = default;

  int64_t device_bytes() const { return device_elements * base::format_bytes(format); }
  /// The place of storage element o, 0 <= o < storage_elements.
  int64_t device_element(int64_t o) const;

  /// From a user layout and the tensor it lays out (sizes and strides in elements, offset 0). Every storage element
  /// from 0 to the tensor's last one gets a place, those in gaps between strides too, because views may reach them.
  /// Throws Error(user) naming both when the layout has no place for one, and Error(unimplemented) for a layout that
  /// pads one dimension at two levels of a split. Where two readings of a layout give each element a place, the one
  /// that keeps a host dimension in a device dimension of its own wins, then the outer device dimension.
  static Geometry of(const SpyreTensorLayout& layout, const std::vector<int64_t>& sizes,
                     const std::vector<int64_t>& strides);
  /// Plain row of `elements` in storage order (the 1-D layout): what raw-turned-typed, gappy and >6-D tensors use.
  static Geometry linear(base::Format format, int64_t elements);
  /// A seeded, legal permutation of this geometry's sticks and dimensions (SPYRE_LAYOUT=scramble): same elements, other
  /// places, up to a few times the sticks. Elements keep their lane.
  Geometry scrambled(uint64_t seed) const;

  /// Throws Error(program) unless the digits are well formed and keep every storage element inside device_elements.
  void check() const;
  /// True when no two storage elements share a place. Proved from the digits in O(digits^2), whatever the sizes:
  /// complete for every geometry made by of(), linear() and scrambled(); digits of another origin may be distinct and
  /// not proved.
  bool places_are_distinct() const;
  size_t hash() const;
  std::string to_text() const;                       ///< "geo{dl16 n=256000 d=256000 (div1,mod1,div2,mod2)*stride ...}"
  static Geometry from_text(std::string_view text);  ///< throws Error(program), also as check()
};

/// The default layout and geometry of a new tensor: contiguous -> default template; dense permuted strides ->
/// dim_order; gaps, overlaps, zero strides or more than 6 dimensions -> linear over storage elements (then `layout` is
/// the 1-D one).
struct DefaultPlacement {
  SpyreTensorLayout layout;
  Geometry geometry;
};
/// With `ieee`, float16 is stored as IEEE half: the geometry's format says so, the layout users see stays the same.
/// Throws Error(user) as HostView::check and base::device_format.
DefaultPlacement default_placement(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                   base::HostType type, bool ieee);

}  // namespace spyre::layout

#include "layout/access.h"  // IWYU pragma: export
