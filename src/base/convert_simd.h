// The array conversions of one instruction set (base/isa.h). Private to base/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/isa.h"

namespace spyre::base {

/// n consecutive elements each; any n, any alignment; dst and src don't overlap.
struct ConvertTable {
  void (*dl16_to_f32)(const uint16_t* src, float* dst, size_t n);
  void (*f32_to_dl16_saturate)(const float* src, uint16_t* dst, size_t n);
  void (*f32_to_dl16_infinity)(const float* src, uint16_t* dst, size_t n);
  void (*f16_to_f32)(const uint16_t* src, float* dst, size_t n);
  void (*f32_to_f16)(const float* src, uint16_t* dst, size_t n);
  void (*bf16_to_f32)(const uint16_t* src, float* dst, size_t n);
  void (*f32_to_bf16)(const float* src, uint16_t* dst, size_t n);
  void (*e4m3_to_f32)(const uint8_t* src, float* dst, size_t n);
  void (*f32_to_e4m3)(const float* src, uint8_t* dst, size_t n);
  void (*e5m2_to_f32)(const uint8_t* src, float* dst, size_t n);
  void (*f32_to_e5m2)(const float* src, uint8_t* dst, size_t n);
  void (*b8_to_f32)(const uint8_t* src, float* dst, size_t n);
  void (*f32_to_b8)(const float* src, uint8_t* dst, size_t n);

  void (*f16_to_dl16)(const uint16_t* src, uint16_t* dst, size_t n);
  /// +-65536 becomes +-65504.
  void (*dl16_to_f16)(const uint16_t* src, uint16_t* dst, size_t n);
  void (*bf16_to_dl16)(const uint16_t* src, uint16_t* dst, size_t n);
  void (*dl16_to_bf16)(const uint16_t* src, uint16_t* dst, size_t n);
  void (*b8_to_dl16)(const uint8_t* src, uint16_t* dst, size_t n);
  void (*dl16_to_b8)(const uint16_t* src, uint8_t* dst, size_t n);

  /// Returns the index of the first element outside int32, or n; elements from there on may be written or not.
  size_t (*i64_to_i32)(const int64_t* src, int32_t* dst, size_t n);
  void (*i32_to_i64)(const int32_t* src, int64_t* dst, size_t n);
  void (*u8_to_u32)(const uint8_t* src, uint32_t* dst, size_t n);
  void (*u32_to_u8)(const uint32_t* src, uint8_t* dst, size_t n);
};

SPYRE_SIMD_DECLARE(ConvertTable, convert_table)

/// The table of an instruction set that is available.
const ConvertTable& convert_table(Isa isa);

}  // namespace spyre::base
