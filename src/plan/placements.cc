#include "plan/placements.h"

#include <algorithm>

#include "plan/axes.h"

namespace spyre::plan {

namespace {

/// Sizes in storage order, outermost first, without those of 1; nothing when the strides leave gaps or repeat.
std::vector<int64_t> storage_sizes(const graph::Value& value) {
  const std::vector<int64_t> sizes = numbers(value.sizes), strides = numbers(value.strides);
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  std::vector<int64_t> out;
  int64_t dense = 1;
  for (size_t d : order) {
    if (strides[d] != dense) return {};
    dense *= sizes[d];
    out.insert(out.begin(), sizes[d]);
  }
  return out;
}

}  // namespace

std::vector<layout::Geometry> placements(const graph::Value& value, bool ieee, int64_t span_bytes) {
  const auto by_default = [&](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return layout::default_placement(sizes, strides, value.type, ieee).geometry;
  };
  std::vector<layout::Geometry> out;
  const auto add = [&](layout::Geometry geometry) {
    if (std::find(out.begin(), out.end(), geometry) == out.end()) out.push_back(std::move(geometry));
  };
  const std::vector<int64_t> sizes = storage_sizes(value);
  if (sizes.size() >= 2) {
    const int64_t elements = layout::numel(sizes);
    const int64_t lanes = base::elements_per_stick(base::device_format(value.type, ieee));
    const auto with_rows_of = [&](int64_t row) {
      const std::vector<int64_t> matrix{elements / row, row};
      add(by_default(matrix, {row, 1}));
      if (row % lanes == 0) add(by_default({elements}, {1}));
    };
    int64_t row = 1;
    for (size_t d = sizes.size(); d-- > 0 && row % lanes != 0;) row *= sizes[d];
    if (row % lanes == 0) with_rows_of(row);
    with_rows_of(sizes.back());
  }
  add(by_default(numbers(value.sizes), numbers(value.strides)));
  if (out.front().device_bytes() > span_bytes && out.size() > 1) std::swap(out[0], out[1]);
  return out;
}

}  // namespace spyre::plan
