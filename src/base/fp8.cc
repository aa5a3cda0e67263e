// The two fp8 formats, one element at a time; roundings and overflow as torch.float8_e4m3fn and torch.float8_e5m2.
#include <bit>

#include "base/formats.h"

namespace spyre::base {

float e4m3_to_f32(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7F;
  if (magnitude == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  const float tiny = static_cast<float>(magnitude) * 0x1p-9f;
  return sign ? -tiny : tiny;
}

uint8_t f32_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (magnitude > 0x7F800000) return sign | 0x7F;
  if (magnitude >= 0x43E80000)
    return sign | 0x7E;          // 464, the middle between 448 and 480, to infinity: saturates, as in torch
  if (magnitude < 0x3C800000) {  // below 2^-6: the sum with 2^14 rounds to a multiple of 2^-9
    const float sum = std::bit_cast<float>(magnitude) + 0x1p14f;
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(sum) - 0x46800000);
  }
  const uint32_t rounded = magnitude + 0x7FFFF + (magnitude >> 20 & 1);
  return sign | static_cast<uint8_t>((rounded >> 20) - (120 << 3));
}

float e5m2_to_f32(uint8_t code) { return f16_to_f32(static_cast<uint16_t>(code << 8)); }

uint8_t f32_to_e5m2(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (magnitude > 0x7F800000) return sign | 0x7F;
  if (magnitude >= 0x47800000) return sign | 0x7C;  // 65536 and above
  if (magnitude < 0x38800000) {                     // below 2^-14: the sum with 2^7 rounds to a multiple of 2^-16
    const float sum = std::bit_cast<float>(magnitude) + 0x1p7f;
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(sum) - 0x43000000);
  }
  const uint32_t rounded = magnitude + 0xFFFFF + (magnitude >> 21 & 1);
  return sign | static_cast<uint8_t>((rounded >> 21) - (112 << 2));
}

}  // namespace spyre::base
