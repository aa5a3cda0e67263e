// What the kernels that read and write tiles by axes have in common: formals and entries of a reference over some axes.
#pragma once

#include <span>
#include <vector>

#include "lower/forms.h"
#include "lower/kernel_builder.h"
#include "plan/axes.h"

namespace spyre::lower {

/// A reference over axes as a formal: points first, then the dimensions of its tile.
struct AxisFormal {
  Id formal = none;
  std::vector<int> points;    ///< axes along which it moves, and that are no dimension of the tile
  std::vector<int> tile;      ///< axes
  std::vector<bool> flipped;  ///< per point: its view runs backwards

  /// Entries, by the range of each axis (none: all of it).
  std::vector<Entry> entries(const std::vector<Id>& range, const std::vector<int64_t>& axis_sizes) const;
};

/// Declares it in builder and `emitted`. `actual`: the memory it is in.
AxisFormal add_formal(KernelBuilder& builder, Emitted& emitted, program::Direction direction, const plan::AxisRef& ref,
                      const std::vector<int64_t>& axis_sizes, std::span<const int> walked, std::span<const int> tile,
                      const layout::Geometry& geometry, Emitted::Actual actual, std::string_view name);

}  // namespace spyre::lower
