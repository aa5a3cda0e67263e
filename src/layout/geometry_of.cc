// Geometry::of: from stride_map, which says what a step of each device dimension makes in host elements, to its
// inverse, the digits of a host element. The proof is by strides alone, so its cost does not depend on sizes.
//
// Take device dimensions by falling host stride: the largest takes o div S, the rest o mod S goes on to the next. Each
// storage element below `elements` is reached when every digit stays below its dimension's size and nothing is left at
// the end; no two elements can share a place because o is the sum of digit x S again. What needs care is which
// dimensions take part: padding (a stick count larger than the rows need, say) has a stride too, but stands for no
// element.
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "layout/geometry.h"
#include "layout/walk_detail.h"

namespace spyre::layout {

namespace {

struct Axis {
  int64_t size = 0, map = 0;  // device size, host elements of one step
  int64_t stride = 0;         // device elements of one step
  size_t index = 0;
};

struct HostDim {
  int64_t size, stride;
};

enum class Verdict { placed, lost, too_deep };

// ((o mod m1) mod m2 ...) div step as one digit, if it can be: a modulus that a later one divides says nothing.
std::optional<Digit> digit_of(const std::vector<int64_t>& moduli, const Axis& axis) {
  int64_t inner = 0, outer = 0;  // the last modulus that counts, and the one before it
  for (size_t i = moduli.size(); i-- > 0;) {
    if (inner == 0) {
      inner = moduli[i];
    } else if (outer == 0) {
      if (moduli[i] % inner != 0) outer = moduli[i];
    } else if (moduli[i] % outer != 0) {
      return std::nullopt;
    }
  }
  const int64_t step = axis.map;
  if (inner == 0) return Digit{step, axis.size, 1, axis.size, axis.stride};
  if (outer == 0) {
    if (inner % step == 0) return Digit{step, inner / step, 1, axis.size, axis.stride};
    return Digit{1, inner, step, axis.size, axis.stride};
  }
  if (inner % step == 0) return Digit{1, outer, step, inner / step, axis.stride};
  return std::nullopt;
}

// `axes` by falling map, no two equal.
Verdict place(const std::vector<Axis>& axes, int64_t elements, size_t lane_index, std::vector<Digit>& digits) {
  std::vector<std::pair<size_t, Digit>> found;
  std::vector<int64_t> moduli;
  found.reserve(axes.size());
  moduli.reserve(axes.size());
  int64_t left = elements;  // what is left of o runs over 0..left-1
  bool too_deep = false;
  for (const Axis& axis : axes) {
    const int64_t largest = (left - 1) / axis.map;
    if (largest >= axis.size) return Verdict::lost;
    if (largest == 0) continue;
    if (auto digit = digit_of(moduli, axis)) {
      found.emplace_back(axis.index, *digit);
    } else {
      too_deep = true;
    }
    moduli.push_back(axis.map);
    left = axis.map;
  }
  if (left != 1) return Verdict::lost;
  if (too_deep) return Verdict::too_deep;
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  digits.clear();
  digits.reserve(found.size() + 1);
  for (const auto& [index, digit] : found) digits.push_back(digit);
  // A stick that holds one element, or a sparse one: the lane is always 0.
  if (found.empty() || found.back().first != lane_index) digits.push_back({1, 1, 1, 1, 1});
  return Verdict::placed;
}

// Of device dimensions with equal host steps only one can stand for elements: the one of a host dimension's very size,
// else the largest, the outer first.
std::vector<Axis> drop_equal_steps(const std::vector<Axis>& axes, const std::vector<HostDim>& dims) {
  auto exact = [&](const Axis& a) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const HostDim& d) { return d.stride == a.map && d.size == a.size; });
  };
  std::vector<Axis> kept;
  kept.reserve(axes.size());
  for (const Axis& axis : axes) {
    if (kept.empty() || kept.back().map != axis.map) {
      kept.push_back(axis);
    } else if (!exact(kept.back()) && (exact(axis) || axis.size > kept.back().size)) {
      kept.back() = axis;
    }
  }
  return kept;
}

// A host dimension that has a device dimension to itself needs no other one with a step inside it: that one is padding.
bool is_covered(const Axis& axis, const std::vector<Axis>& axes, const std::vector<HostDim>& dims) {
  for (const HostDim& d : dims) {
    if (axis.map <= d.stride || axis.map / d.stride >= d.size) continue;
    for (const Axis& other : axes) {
      if (other.map == d.stride && other.size >= d.size) return true;
    }
  }
  return false;
}

// A step inside a host dimension that is no multiple of the host's step belongs to a smaller dimension, past its end.
bool is_misaligned(const Axis& axis, const std::vector<HostDim>& dims) {
  int64_t stride = 1;
  for (const HostDim& d : dims) {
    if (d.stride <= axis.map) stride = std::max(stride, d.stride);
  }
  return axis.map % stride != 0;
}

// The last resort: any choice of dimensions that works, larger steps first. Padding inside a split dimension needs it.
// A choice is given up as soon as a digit leaves its dimension; few dimensions make the worst case small.
class Search {
 public:
  Search(const std::vector<Axis>& axes, int64_t elements, size_t lane_index)
      : axes_(axes), elements_(elements), lane_index_(lane_index) {}
  bool find(std::vector<Digit>& digits) { return from(0, elements_, digits); }
  bool too_deep() const { return too_deep_; }

 private:
  bool from(size_t i, int64_t left, std::vector<Digit>& digits) {
    if (left == 1 || i == axes_.size()) {
      if (left != 1) return false;
      const Verdict verdict = place(used_, elements_, lane_index_, digits);
      too_deep_ = too_deep_ || verdict == Verdict::too_deep;
      return verdict == Verdict::placed;
    }
    const Axis& axis = axes_[i];
    if (axis.map < left && (left - 1) / axis.map < axis.size) {
      used_.push_back(axis);
      if (from(i + 1, axis.map, digits)) return true;
      used_.pop_back();
    }
    return from(i + 1, left, digits);
  }

  const std::vector<Axis>& axes_;
  const int64_t elements_;
  const size_t lane_index_;
  std::vector<Axis> used_;
  bool too_deep_ = false;
};

constexpr size_t max_searched = 16;

}  // namespace

Geometry Geometry::of(const SpyreTensorLayout& layout, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides) {
  const HostView view{sizes, strides, 0};
  view.check();
  const auto& device = layout.device_size();
  const auto& map = layout.stride_map();
  const int64_t lanes = layout.elems_per_stick();
  auto refuse = [&](Fault fault, const char* why) {
    fail(fault, "{} does not fit a tensor of sizes [{}] strides [{}]: {}", layout.repr(), fmt::join(sizes, ", "),
         fmt::join(strides, ", "), why);
  };
  Geometry g;
  g.format = storage_format(layout.device_dtype());
  if (device.empty() || device.back() != lanes) {
    refuse(Fault::user, "the last device dimension must be the stick, all its elements");
  }
  g.storage_elements = view.extent().second;
  g.device_elements = layout.device_bytes() / base::format_bytes(g.format);

  std::vector<Axis> axes;
  axes.reserve(device.size());
  int64_t stride = 1;
  for (size_t i = device.size(); i-- > 0;) {
    if (device[i] > 1 && map[i] >= 0) {
      if (map[i] == 0) {
        refuse(Fault::user,
               "a device dimension larger than 1 with stride 0 would hold each element several times; "
               "mark padding by -1");
      }
      axes.push_back({device[i], map[i], stride, i});
    }
    stride *= std::max<int64_t>(device[i], 1);
  }
  if (g.storage_elements == 0) {
    g.digits = {{1, 1, 1, 1, 1}};
    return g;
  }
  if (g.device_elements == 0) refuse(Fault::user, "the layout is empty, the tensor is not");

  std::vector<HostDim> dims;
  dims.reserve(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && strides[d] > 0) dims.push_back({sizes[d], strides[d]});
  }
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.map != b.map ? a.map > b.map : a.index < b.index; });
  const std::vector<Axis> unequal = drop_equal_steps(axes, dims);
  // From the reading that respects the host's dimensions most to the one that folds them freely.
  bool too_deep = false;
  for (int attempt = 0; attempt < 4; ++attempt) {
    std::vector<Axis> used;
    used.reserve(unequal.size());
    for (const Axis& axis : unequal) {
      const bool drop =
          ((attempt & 1) == 0 && is_covered(axis, unequal, dims)) || ((attempt & 2) == 0 && is_misaligned(axis, dims));
      if (!drop) used.push_back(axis);
    }
    const Verdict verdict = place(used, g.storage_elements, device.size() - 1, g.digits);
    if (verdict == Verdict::placed) return g;
    too_deep = too_deep || verdict == Verdict::too_deep;
  }
  if (axes.size() <= max_searched) {
    Search search(axes, g.storage_elements, device.size() - 1);
    if (search.find(g.digits)) return g;
    too_deep = too_deep || search.too_deep();
  }
  if (too_deep) {
    refuse(Fault::unimplemented, "it pads a dimension at two levels of a split; pad at one level only");
  }
  refuse(Fault::user,
         "it has no place of their own for some of the elements from the tensor's first to its last; enlarge "
         "device_size or correct stride_map");
  return g;
}

namespace {

// One form for equal digits: what div2 and mod1 have in common moves to div1.
Digit reduced(const Digit& digit, int64_t elements) {
  Digit d = detail::simplified(digit, elements);
  const int64_t common = std::gcd(d.div2, d.mod1);
  d.div1 *= common;
  d.mod1 /= common;
  d.div2 /= common;
  return d;
}

}  // namespace

// The same argument backwards: read each digit as a device dimension of step div1 x div2. If the digits those steps ask
// for are the digits there are, o is the sum of digit x step; and the sum of digit x stride gives the digits back when
// each stride exceeds what all smaller ones reach.
bool Geometry::places_are_distinct() const {
  if (storage_elements <= 1) return true;
  std::vector<Axis> axes;
  for (size_t i = 0; i < digits.size(); ++i) {
    const Digit& d = digits[i];
    Axis axis{d.range(storage_elements), 0, d.stride, i};
    if (axis.size == 1) continue;
    if (__builtin_mul_overflow(d.div1, d.div2, &axis.map)) return false;
    axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  int64_t reach = 0;  // below device_elements: check()
  for (const Axis& axis : axes) {
    if (axis.stride <= reach) return false;
    reach += (axis.size - 1) * axis.stride;
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.map > b.map; });
  std::vector<int64_t> moduli;
  int64_t left = storage_elements;
  for (const Axis& axis : axes) {
    if (axis.map >= left || (left - 1) / axis.map >= axis.size) return false;
    const std::optional<Digit> wanted = digit_of(moduli, axis);
    if (!wanted) return false;
    if (reduced(*wanted, storage_elements) != reduced(digits[axis.index], storage_elements)) return false;
    moduli.push_back(axis.map);
    left = axis.map;
  }
  return left == 1;
}

}  // namespace spyre::layout
