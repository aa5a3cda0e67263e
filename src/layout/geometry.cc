#include "layout/geometry.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace spyre::layout {

int64_t Digit::range(int64_t elements) const {
  if (elements <= 0) return 1;
  const int64_t first = std::min((elements - 1) / div1 + 1, mod1);
  return std::min((first - 1) / div2 + 1, mod2);
}

int64_t Geometry::device_element(int64_t o) const {
  int64_t e = 0;
  for (const Digit& digit : digits) e += digit.of(o) * digit.stride;
  return e;
}

Geometry Geometry::linear(base::Format format, int64_t elements) {
  const int64_t lanes = base::elements_per_stick(format);
  int64_t bytes = 0;
  if (elements < 0 || elements > INT64_MAX - lanes ||
      __builtin_mul_overflow(elements + lanes, base::format_bytes(format), &bytes)) {
    fail(Fault::user, "{} elements are more than a device address can reach", elements);
  }
  const int64_t sticks = elements / lanes + (elements % lanes != 0);
  Geometry g;
  g.format = format;
  g.storage_elements = elements;
  g.device_elements = sticks * lanes;
  const int64_t count = std::max<int64_t>(sticks, 1);
  g.digits = {{lanes, count, 1, count, lanes}, {1, lanes, 1, lanes, 1}};
  return g;
}

void Geometry::check() const {
  auto broken = [&](const char* why) { fail(Fault::program, "geometry {}: {}", to_text(), why); };
  if (storage_elements < 0 || device_elements < 0) broken("a negative size");
  if (device_elements % base::elements_per_stick(format) != 0) broken("device elements are no whole number of sticks");
  if (digits.empty() || digits.back().stride != 1) broken("the last digit must be the lane, stride 1");
  if (device_elements > INT64_MAX / base::format_bytes(format)) broken("more than 2^63 bytes");
  int64_t last = 0;
  for (const Digit& d : digits) {
    if (d.div1 < 1 || d.mod1 < 1 || d.div2 < 1 || d.mod2 < 1 || d.stride < 0) broken("a digit below its range");
    int64_t reach = 0;
    if (__builtin_mul_overflow(d.range(storage_elements) - 1, d.stride, &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      broken("a digit leaves 64 bits");
    }
  }
  if (digits.back().range(storage_elements) > base::elements_per_stick(format)) broken("more lanes than a stick has");
  if (storage_elements > 0 && last >= device_elements) broken("elements past the end");
}

size_t Geometry::hash() const {
  uint64_t h = 0xCBF29CE484222325u;
  auto mix = [&h](int64_t v) {
    h ^= static_cast<uint64_t>(v);
    h *= 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  };
  mix(static_cast<int>(format));
  mix(storage_elements);
  mix(device_elements);
  for (const Digit& d : digits) {
    mix(d.div1);
    mix(d.mod1);
    mix(d.div2);
    mix(d.mod2);
    mix(d.stride);
  }
  return static_cast<size_t>(h);
}

}  // namespace spyre::layout
