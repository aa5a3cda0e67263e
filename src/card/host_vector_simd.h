// The elementwise kernels of one instruction set. Private to the host kernels.
#pragma once

#include "base/isa.h"
#include "card/host_vector.h"

namespace spyre::card::host {

struct FloatTable {
  F32UnaryFn unary[f32_unary_count];
  F32BinaryFn binary[f32_binary_count];
  F32CompareFn compare[comparison_count];
  void (*fma)(float* dst, const float* a, const float* b, const float* c, size_t n, Splat splat);
  void (*is_nan)(int32_t* mask, const float* a, size_t n);
};

struct ChainTable {
  void (*chain)(float* to, const float* from, int64_t rows, size_t n, const F32LinkArgs* links, int count);
};

struct IntegerTable {
  I32UnaryFn unary[i32_unary_count];
  I32BinaryFn binary[i32_binary_count];
  I32CompareFn compare[comparison_count];
  void (*select)(int32_t* dst, const int32_t* mask, const int32_t* a, const int32_t* b, size_t n, Splat splat);
  I32Status (*cast_f32_i32)(int32_t* dst, const float* a, size_t n);
  void (*cast_i32_f32)(float* dst, const int32_t* a, size_t n);
  void (*cast_mask_f32)(float* dst, const int32_t* mask, size_t n);
  void (*cast_mask_i32)(int32_t* dst, const int32_t* mask, size_t n);
  void (*cast_f32_mask)(int32_t* mask, const float* a, size_t n);
  void (*cast_i32_mask)(int32_t* mask, const int32_t* a, size_t n);
  void (*widen_i16)(int32_t* dst, const int16_t* a, size_t n);
  void (*widen_i8)(int32_t* dst, const int8_t* a, size_t n);
  void (*narrow_i16)(int16_t* dst, const int32_t* a, size_t n);  ///< the low bits
  void (*narrow_i8)(int8_t* dst, const int32_t* a, size_t n);
  void (*iota)(int32_t* dst, int32_t first, int32_t step, size_t n);
  void (*philox)(int32_t* dst, const int32_t* seed, const int32_t* offset, const int32_t* index, int word, size_t n,
                 Splat splat);
};

SPYRE_SIMD_DECLARE(FloatTable, float_table)
SPYRE_SIMD_DECLARE(ChainTable, chain_table)
SPYRE_SIMD_DECLARE(IntegerTable, integer_table)

const FloatTable& float_table(base::Isa isa);
const ChainTable& chain_table(base::Isa isa);
const IntegerTable& integer_table(base::Isa isa);
const IntegerTable& integers();  ///< the one for this machine

}  // namespace spyre::card::host
