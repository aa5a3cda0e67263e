// Elements: reading, writing and filling single elements and rows of any format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/formats.h"
#include "card/view.h"

namespace spyre::card {

/// Bits of `value` in `format` (constants: out-of-range DL16 saturates).
uint32_t encode_element(double value, Format format);
/// Writes n copies of an element.
void fill_elements(std::byte* to, int64_t n, uint32_t bits, Format format);

constexpr bool is_float(Format f) {
  return f == Format::dl16 || f == Format::f16 || f == Format::f32 || f == Format::e4m3 || f == Format::e5m2;
}

/// n elements, `step` apart, to consecutive f32 lanes; integers convert.
void load_f32(const std::byte* from, Format format, int64_t step, float* to, int64_t n);
/// n elements, `step` apart, to consecutive i32 lanes; narrow integers extend, floats truncate (out of range:
/// INT32_MIN).
void load_i32(const std::byte* from, Format format, int64_t step, int32_t* to, int64_t n);
/// Rounds to the format (DL16 overflow to infinity) and writes n elements, `step` apart. Integer formats truncate.
void store_f32(const float* from, std::byte* to, Format format, int64_t step, int64_t n);
/// Writes n i32 lanes; narrow integers wrap, floats convert.
void store_i32(const int32_t* from, std::byte* to, Format format, int64_t step, int64_t n);

/// f32 to i32 as the SFP casts: truncates, out of range and NaN give INT32_MIN.
inline int32_t to_i32(float x) {
  return x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int32_t>(x) : INT32_MIN;
}

}  // namespace spyre::card
