#include "program/verify_sticks.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "program/interval.h"

namespace spyre::program::verifier {
namespace {

using layout::Digit;
using layout::Geometry;
using layout::HostView;

/// constant + sum of factor x variable; factors are >= 0.
struct Linear {
  int64_t constant = 0;
  std::vector<int64_t> factor;
};

/// Variables go from 0 to `most`. Of one index, cut into block x high + low, the whole is known to be at most `joint`.
struct Limits {
  std::vector<int64_t> most;
  size_t high = SIZE_MAX, low = SIZE_MAX;
  int64_t block = 1, joint = 0;
};

/// Upper bound, or the largest int64.
int64_t largest(const Linear& f, const Limits& limits) {
  int64_t sum = f.constant;
  const bool together =
      limits.high != SIZE_MAX && f.factor[limits.high] == saturating_mul(limits.block, f.factor[limits.low]);
  for (size_t i = 0; i < limits.most.size(); ++i) {
    if (together && i == limits.high) continue;
    const int64_t most = together && i == limits.low ? limits.joint : limits.most[i];
    const int64_t term = saturating_mul(f.factor[i], most);
    if (term > INT64_MAX - sum) return INT64_MAX;
    sum += term;
  }
  return sum;
}

/// f div by, if it is linear again: the parts below `by` never carry.
bool divide(Linear& f, int64_t by, const Limits& most) {
  if (by == 1) return true;
  Linear rest;
  rest.constant = f.constant % by;
  for (int64_t x : f.factor) rest.factor.push_back(x % by);
  if (largest(rest, most) >= by) return false;
  f.constant /= by;
  for (int64_t& x : f.factor) x /= by;
  return true;
}

/// f mod by, if it is linear.
bool modulo(Linear& f, int64_t by, const Limits& most) {
  if (largest(f, most) < by) return true;
  Linear rest;
  rest.constant = f.constant % by;
  for (int64_t x : f.factor) rest.factor.push_back(x % by);
  if (largest(rest, most) >= by) return false;
  f = rest;
  return true;
}

/// Largest number that divides `by` and all of f but the part of variable v.
int64_t common_factor(const Linear& f, int64_t by, size_t v) {
  int64_t g = std::gcd(f.constant, by);
  for (size_t i = 0; i < f.factor.size(); ++i)
    if (i != v) g = std::gcd(g, f.factor[i]);
  return g;
}

/// True when the digit of a linear offset is proved not to depend on variable v: v vanishes in a division, be it
/// because all of it is linear or because v only fills the gaps between the multiples of what the divisor and the rest
/// share.
bool independent_of(Linear f, const Digit& d, const Limits& most, size_t v) {
  const int64_t part = saturating_mul(f.factor[v], most.most[v]);
  if (part < common_factor(f, d.div1, v)) return true;
  if (!divide(f, d.div1, most)) return false;
  if (f.factor[v] == 0) return true;
  const int64_t left = saturating_mul(f.factor[v], most.most[v]);
  if (left < std::gcd(common_factor(f, d.mod1, v), d.div2)) return true;
  if (!modulo(f, d.mod1, most)) return false;
  if (f.factor[v] == 0 || saturating_mul(f.factor[v], most.most[v]) < common_factor(f, d.div2, v)) return true;
  if (!divide(f, d.div2, most)) return false;
  if (f.factor[v] == 0) return true;
  return modulo(f, d.mod2, most) && f.factor[v] == 0;
}

/// The digit of a linear offset, when every step of it is linear.
bool exact_digit(Linear& f, const Digit& d, const Limits& most) {
  return divide(f, d.div1, most) && modulo(f, d.mod1, most) && divide(f, d.div2, most) && modulo(f, d.mod2, most);
}

/// Digits (div1, mod1, 1, mod1) where two levels are one.
Digit merged(const Digit& d) {
  if (d.div2 == 1 && d.mod2 >= d.mod1) return {d.div1, d.mod1, 1, d.mod1, d.stride};
  const bool divides = saturating_mul(d.div2, d.mod2) <= d.mod1 && d.mod1 % (d.div2 * d.mod2) == 0;
  if (!divides || d.div1 > value_limit / d.div2) return d;
  return {d.div1 * d.div2, d.mod2, 1, d.mod2, d.stride};
}

/// True when the digits determine the storage element: groups of equal (div1, mod1) each give all of their first level,
/// and the first levels follow each other.
bool determine_element(std::vector<Digit> digits, int64_t elements) {
  std::erase_if(digits, [&](const Digit& d) { return d.range(elements) == 1; });
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) {
    return a.div1 != b.div1 ? a.div1 < b.div1 : a.mod1 != b.mod1 ? a.mod1 < b.mod1 : a.div2 < b.div2;
  });
  int64_t known = 1;  // o mod known follows from the digits so far
  for (size_t i = 0; i < digits.size();) {
    if (known >= elements) return true;
    const Digit& first = digits[i];
    if (first.div1 != known) return false;
    int64_t inside = 1;
    for (; i < digits.size() && digits[i].div1 == first.div1 && digits[i].mod1 == first.mod1; ++i)
      if (digits[i].div2 == inside) inside = saturating_mul(digits[i].div2, digits[i].mod2);
    const int64_t range = std::min(first.mod1, ceil_div(elements, first.div1));
    if (inside < range) return false;
    known = saturating_mul(first.div1, first.mod1);
  }
  return known >= elements;
}

}  // namespace

bool places_are_distinct(const Geometry& g) {
  const int64_t n = g.storage_elements;
  if (n <= 1) return true;
  std::vector<Digit> digits = g.digits;
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
  int64_t reach = 0;  // of the digits with smaller strides
  bool apart = true;
  for (const Digit& d : digits) {
    const int64_t range = d.range(n);
    if (range == 1) continue;
    apart = apart && d.stride > reach;
    reach += (range - 1) * d.stride;  // inside device_elements: Geometry::check
  }
  if (apart) {
    if (determine_element(g.digits, n)) return true;
    for (Digit& d : digits) d = merged(d);
    if (determine_element(digits, n)) return true;
  }
  if (n > int64_t{1} << 20 || g.device_elements > int64_t{1} << 24) return false;
  std::vector<bool> taken(static_cast<size_t>(g.device_elements), false);
  for (int64_t o = 0; o < n; ++o) {
    const int64_t e = g.device_element(o);
    if (e < 0 || e >= g.device_elements || taken[e]) return false;
    taken[e] = true;
  }
  return true;
}

StickShape stick_shape(const HostView& view, const Geometry& g) {
  StickShape shape;
  const size_t rank = view.sizes.size();
  if (g.digits.empty() || view.numel() == 0 || !places_are_distinct(g)) return shape;
  const int64_t lanes = base::elements_per_stick(g.format);
  const Digit lane = g.digits.back();
  for (const Digit& d : g.digits)
    if (&d != &g.digits.back() && d.range(g.storage_elements) > 1 && d.stride % lanes != 0) return shape;
  if (lane.range(g.storage_elements) > lanes) return shape;

  // Does every element have the same lane?
  Limits most;
  Linear offset{view.offset, view.strides};
  for (int64_t s : view.sizes) most.most.push_back(s - 1);
  for (size_t d = 0; d < rank; ++d)
    if (view.sizes[d] == 1) offset.factor[d] = 0;
  Linear constant = offset;
  if (exact_digit(constant, lane, most) &&
      std::all_of(constant.factor.begin(), constant.factor.end(), [](int64_t x) { return x == 0; })) {
    if (layout::writes_overlap(view)) return shape;
    shape.known = true;
    return shape;
  }
  // Or do its lanes follow one dimension, blocks of whose indices make a stick?
  const int64_t unit = saturating_mul(lane.div1, lane.div2);
  for (size_t l = rank; l-- > 0;) {
    const int64_t stride = view.strides[l];
    if (view.sizes[l] == 1 || stride == 0 || stride % unit != 0) continue;
    const int64_t factor = stride / unit;
    if (factor > lanes || lanes % factor != 0) continue;
    const int64_t block = lanes / factor, phase = lane.of(view.offset) / factor;
    if (view.offset < saturating_mul(stride, phase)) continue;
    HostView longer = view;
    longer.offset -= stride * phase;
    longer.sizes[l] += phase;
    Linear f{longer.offset, offset.factor};
    auto limit = most;
    limit.most[l] = (longer.sizes[l] - 1) / block;  // index = block x this variable + the new, last one
    if (stride > INT64_MAX / block) continue;
    f.factor[l] = limit.most[l] == 0 ? 0 : stride * block;  // a variable that is always 0 says nothing
    f.factor.push_back(stride);
    limit.most.push_back(std::min(block, longer.sizes[l]) - 1);
    const size_t low = rank;
    limit.high = l, limit.low = low, limit.block = block, limit.joint = longer.sizes[l] - 1;
    bool right = true;
    for (size_t d = 0; right && d + 1 < g.digits.size(); ++d) right = independent_of(f, g.digits[d], limit, low);
    Linear own = f;
    right = right && exact_digit(own, lane, limit);
    for (size_t d = 0; right && d < rank; ++d) right = own.factor[d] == 0 || limit.most[d] == 0;
    if (!right || layout::writes_overlap(longer)) continue;
    shape.known = true;
    shape.lane_dim = static_cast<int>(l);
    shape.block = block;
    shape.phase = phase;
    return shape;
  }
  return shape;
}

}  // namespace spyre::program::verifier
