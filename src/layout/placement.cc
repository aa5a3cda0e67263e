#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "layout/geometry.h"

namespace spyre::layout {

namespace {

constexpr size_t max_layout_rank = 6;

bool is_contiguous(const HostView& view) {
  int64_t stride = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] == 1) continue;
    if (view.strides[d] != stride) return false;
    stride *= view.sizes[d];
  }
  return true;
}

// The order that makes `view` row-major, if it is dense. Dimensions of size 1 go before equal strides: one of them as
// the stick dimension would spend a stick on each element.
bool dense_order(const HostView& view, std::vector<int64_t>& order) {
  order.resize(view.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int64_t d) {
    const bool single = view.sizes[d] == 1;
    return std::pair(single ? std::max<int64_t>(view.strides[d], 1) : view.strides[d], single);
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return key(a) > key(b); });
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t d = order[i];
    if (view.sizes[d] == 1) continue;
    if (view.strides[d] != stride) return false;
    stride *= view.sizes[d];
  }
  return true;
}

}  // namespace

DefaultPlacement default_placement(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                                   base::HostType type, bool ieee) {
  const HostView view{sizes, strides, 0};
  view.check();
  const base::Format format = base::device_format(type, ieee);
  auto finish = [&](SpyreTensorLayout layout, Geometry geometry) {
    geometry.format = format;
    return DefaultPlacement{std::move(layout), std::move(geometry)};
  };
  if (sizes.size() <= max_layout_rank) {
    std::vector<int64_t> order;
    if (view.numel() == 0 || is_contiguous(view)) {
      SpyreTensorLayout layout(sizes, type);
      return finish(layout, Geometry::of(layout, sizes, strides));
    }
    if (dense_order(view, order)) {
      SpyreTensorLayout layout(sizes, strides, type, order);
      return finish(layout, Geometry::of(layout, sizes, strides));
    }
  }
  const int64_t elements = view.extent().second;
  return finish(SpyreTensorLayout({elements}, type), Geometry::linear(format, elements));
}

}  // namespace spyre::layout
