// DL16, one element at a time: the reference the array kernels are tested against.
#include <bit>

#include "base/formats.h"

namespace spyre::base {
namespace {

constexpr uint32_t exponent_shift = (127 - 31) << 9;  // DL16 exponent bias 31 to float32's 127, in DL16 code units
constexpr uint32_t half_smallest = 0x2F804000;        // (1 + 1/512) * 2^-32, half of code 1, as float32 bits
constexpr uint32_t f32_infinity = 0x7F800000;

}  // namespace

float dl16_to_f32(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
  const uint32_t magnitude = code & 0x7FFF;
  if (magnitude == 0) return std::bit_cast<float>(sign);
  if (magnitude == 0x7FFF) return std::bit_cast<float>(sign ? 0xFF800000u : 0x7FC00000u);
  return std::bit_cast<float>(sign | ((magnitude + exponent_shift) << 14));
}

uint16_t f32_to_dl16(float value, Overflow overflow) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (magnitude > f32_infinity) return 0x7FFF;
  if (magnitude == f32_infinity) return sign | 0x7FFF;
  if (magnitude < half_smallest) return sign;
  const uint32_t rounded = (magnitude + 0x2000) >> 14;  // to nearest, ties away from zero
  // Between half the smallest code and the binade's start, code 1 is the nearest: code 0 of the binade means zero.
  if (rounded <= exponent_shift) return sign | 1;
  const uint32_t code = rounded - exponent_shift;
  if (code >= 0x7FFF) return sign | (overflow == Overflow::saturate ? 0x7FFE : 0x7FFF);
  return sign | static_cast<uint16_t>(code);
}

}  // namespace spyre::base
