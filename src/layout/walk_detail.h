// Digits at work: evaluating them, and walking a row through them without a division per run. Inside layout/ only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "layout/access.h"

namespace spyre::layout::detail {

/// The same digit over storage elements 0..elements-1 (elements > 0), with the least moduli, and on one level ((o div
/// div1) mod mod1, div2 = 1, mod2 = mod1) where that is possible.
Digit simplified(Digit d, int64_t elements);

/// The digits that ever leave 0, simplified to one level where they can be, and joined where two neighbours are one
/// (the sticks and lanes of a 1-D layout are the storage element itself). Same map, fewer divisions. The moduli stay
/// bounded by the range over the geometry's storage elements.
std::vector<Digit> merged_digits(const Geometry& geometry);

/// Device element of storage element o.
inline int64_t place(const std::vector<Digit>& digits, int64_t o) {
  int64_t e = 0;
  for (const Digit& d : digits) {
    int64_t v = (d.div1 == 1 ? o : o / d.div1) % d.mod1;
    if (d.div2 != 1) v /= d.div2;
    if (v >= d.mod2) v %= d.mod2;
    e += v * d.stride;
  }
  return e;
}

/// Appends the strips of storage elements o, o + step, ... (count of them, count > 0) with device elements relative to
/// `device_base` and box indices from `box_index`. Neighbouring pieces are joined.
void append_strips(const std::vector<Digit>& digits, int64_t o, int64_t step, int64_t count, int64_t box_index,
                   int64_t device_base, std::vector<Strip>& out);

/// Enclosing range {least, greatest} of the device elements of storage elements low..high.
std::pair<int64_t, int64_t> bounds(const std::vector<Digit>& digits, int64_t low, int64_t high);

/// Throws Error(user) unless the box lies inside the view.
void check_box(const HostView& view, const Box& box);

}  // namespace spyre::layout::detail
