#include "layout/spyre_tensor_layout.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace spyre::layout {

namespace {

constexpr size_t max_rank = 6;

// Every size multiplied up must fit int64 bytes, or later address arithmetic would wrap.
void check_sizes(const std::vector<int64_t>& sizes, const char* what) {
  int64_t bytes = base::stick_bytes;
  for (int64_t n : sizes) {
    if (n < 0) fail(Fault::user, "SpyreTensorLayout: {} [{}] has a negative size", what, fmt::join(sizes, ", "));
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes)) {
      fail(Fault::user, "SpyreTensorLayout: {} [{}] exceeds the 64-bit address space", what, fmt::join(sizes, ", "));
    }
  }
}

void check_rank(size_t rank) {
  if (rank > max_rank) {
    fail(Fault::user,
         "SpyreTensorLayout: {} dimensions, at most {} are laid out dimension by dimension. Reshape to {} or fewer, or "
         "use the 1-D layout SpyreTensorLayout([numel], dtype)",
         rank, max_rank, max_rank);
  }
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

}  // namespace

SpyreTensorLayout::SpyreTensorLayout(std::vector<int64_t> host_size, base::HostType type) {
  check_rank(host_size.size());
  check_sizes(host_size, "host_size");
  std::vector<int64_t> order(host_size.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  std::vector<int64_t> strides = contiguous_strides(host_size);
  *this = SpyreTensorLayout(std::move(host_size), std::move(strides), type, std::move(order));
}

SpyreTensorLayout::SpyreTensorLayout(std::vector<int64_t> host_size, std::vector<int64_t> host_strides,
                                     base::HostType type, std::vector<int64_t> dim_order,
                                     ElementArrangement arrangement)
    : device_dtype_(data_format_of(type)), arrangement_(arrangement) {
  const size_t rank = host_size.size();
  check_rank(rank);
  check_sizes(host_size, "host_size");
  if (host_strides.size() != rank) {
    fail(Fault::user, "SpyreTensorLayout: host_size [{}] and host_strides [{}] differ in length",
         fmt::join(host_size, ", "), fmt::join(host_strides, ", "));
  }
  const bool sparse = dim_order.size() == rank + 1 && dim_order.back() == -1;
  uint64_t seen = 0;
  bool permutation = dim_order.size() == rank + (sparse ? 1 : 0);
  for (size_t i = 0; permutation && i < rank; ++i) {
    const int64_t d = dim_order[i];
    permutation = d >= 0 && d < static_cast<int64_t>(rank) && (seen >> d & 1) == 0;
    if (permutation) seen |= uint64_t{1} << d;
  }
  if (!permutation) {
    fail(Fault::user,
         "SpyreTensorLayout: dim_order [{}] must name each of the {} dimensions of host_size [{}] once, with at most "
         "one "
         "extra trailing -1 (sparse)",
         fmt::join(dim_order, ", "), rank, fmt::join(host_size, ", "));
  }

  const int64_t lanes = elems_per_stick();
  if (dim_order.empty()) {  // a scalar: one stick, one valid lane
    device_size_ = {1, lanes};
    stride_map_ = {-1, -1};
    return;
  }
  // The template: all but the first dimension with the stick dimension counted in sticks, the first, the stick.
  const int64_t stick_dim = dim_order.back();
  std::vector<int64_t> places;
  places.reserve(dim_order.size());
  places.assign(dim_order.begin() + 1, dim_order.end());
  device_size_.reserve(places.size() + 2);
  stride_map_.reserve(places.size() + 2);
  places.push_back(dim_order.front());  // the stick dimension itself in 1-D
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t d = places[i];
    if (d < 0) {
      device_size_.push_back(1);
      stride_map_.push_back(-1);
    } else if (d == stick_dim) {
      int64_t stride = 0;
      if (host_strides[d] < 0 || __builtin_mul_overflow(host_strides[d], lanes, &stride)) {
        fail(Fault::user,
             "SpyreTensorLayout: stride {} of dimension {} is negative or exceeds the 64-bit address space",
             host_strides[d], d);
      }
      device_size_.push_back(host_size[d] / lanes + (host_size[d] % lanes != 0));
      stride_map_.push_back(stride);
    } else {
      if (host_strides[d] < 0) {
        fail(Fault::user, "SpyreTensorLayout: stride {} of dimension {} is negative", host_strides[d], d);
      }
      device_size_.push_back(host_size[d]);
      stride_map_.push_back(host_size[d] == 1 ? -1 : host_strides[d]);
    }
  }
  device_size_.push_back(lanes);
  stride_map_.push_back(stick_dim < 0 ? -1 : host_strides[stick_dim]);
  check_sizes(device_size_, "device_size");
}

SpyreTensorLayout::SpyreTensorLayout(std::vector<int64_t> device_size, std::vector<int64_t> stride_map,
                                     DataFormats device_dtype, ElementArrangement arrangement)
    : device_size_(std::move(device_size)),
      stride_map_(std::move(stride_map)),
      device_dtype_(device_dtype),
      arrangement_(arrangement) {
  if (device_size_.empty() || device_size_.size() != stride_map_.size()) {
    fail(Fault::user,
         "SpyreTensorLayout: device_size [{}] and stride_map [{}] need one entry per device dimension, at "
         "least the stick",
         fmt::join(device_size_, ", "), fmt::join(stride_map_, ", "));
  }
  check_sizes(device_size_, "device_size");
  for (int64_t s : stride_map_) {
    if (s < -1) {
      fail(Fault::user, "SpyreTensorLayout: stride_map [{}] has {}: give host elements, or -1 for none",
           fmt::join(stride_map_, ", "), s);
    }
  }
}

int SpyreTensorLayout::elems_per_stick() const { return layout::elems_per_stick(device_dtype_); }

int64_t SpyreTensorLayout::device_bytes() const {
  int64_t bytes = base::stick_bytes;
  for (size_t i = 0; i + 1 < device_size_.size(); ++i) bytes *= device_size_[i];
  return bytes;
}

SpyreTensorLayout SpyreTensorLayout::with_element_arrangement(ElementArrangement arrangement) const {
  SpyreTensorLayout other = *this;
  other.arrangement_ = arrangement;
  return other;
}

size_t SpyreTensorLayout::hash() const {
  uint64_t h = 0x9E3779B97F4A7C15u;
  auto mix = [&h](int64_t v) {
    h ^= static_cast<uint64_t>(v);
    h *= 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  };
  mix(static_cast<int64_t>(device_size_.size()));
  for (int64_t n : device_size_) mix(n);
  for (int64_t s : stride_map_) mix(s);
  mix(static_cast<int>(device_dtype_));
  mix(static_cast<int>(arrangement_));
  return static_cast<size_t>(h);
}

std::string SpyreTensorLayout::repr() const {
  return fmt::format(
      "SpyreTensorLayout(device_size=[{}], stride_map=[{}], device_dtype=DataFormats.{}, "
      "element_arrangement=ElementArrangement.{})",
      fmt::join(device_size_, ", "), fmt::join(stride_map_, ", "), data_format_name(device_dtype_),
      element_arrangement_name(arrangement_));
}

}  // namespace spyre::layout
