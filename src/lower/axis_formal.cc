#include "lower/axis_formal.h"

#include <algorithm>

namespace spyre::lower {

std::vector<Entry> AxisFormal::entries(const std::vector<Id>& range, const std::vector<int64_t>& axis_sizes) const {
  std::vector<Entry> out;
  for (size_t p = 0; p < points.size(); ++p) {
    const Id r = range[static_cast<size_t>(points[p])];
    out.push_back(flipped[p] ? at(constant(axis_sizes[static_cast<size_t>(points[p])] - 1) - start(r)) : along(r));
  }
  for (const int a : tile) {
    const Id r = range[static_cast<size_t>(a)];
    out.push_back(r == none ? span_of(constant(0), constant(axis_sizes[static_cast<size_t>(a)])) : along(r));
  }
  return out;
}

AxisFormal add_formal(KernelBuilder& builder, Emitted& emitted, program::Direction direction, const plan::AxisRef& ref,
                      const std::vector<int64_t>& axis_sizes, std::span<const int> walked, std::span<const int> tile,
                      const layout::Geometry& geometry, Emitted::Actual actual, std::string_view name) {
  AxisFormal f;
  f.tile.assign(tile.begin(), tile.end());
  layout::HostView view;
  view.offset = ref.offset;
  const auto add = [&](int axis) {
    const int64_t size = axis_sizes[static_cast<size_t>(axis)], stride = ref.strides[static_cast<size_t>(axis)];
    if (stride < 0) view.offset += stride * (size - 1);
    view.sizes.push_back(size);
    view.strides.push_back(std::abs(stride));
  };
  for (const int a : walked) {
    const int64_t stride = ref.strides[static_cast<size_t>(a)];
    if (stride == 0 || std::find(tile.begin(), tile.end(), a) != tile.end()) continue;
    f.points.push_back(a);
    f.flipped.push_back(stride < 0);
    add(a);
  }
  for (const int a : tile) add(a);
  f.formal = builder.formal(direction, geometry.format, std::move(view), geometry, name);
  emitted.formals.push_back(actual);
  return f;
}

}  // namespace spyre::lower
