// Vector types of one instruction set, for `*_simd.cc` sources only (base/isa.h says why).
//
// GCC vector extensions: the compiler turns them into SSE, AVX2, AVX-512, VSX or z/Vector code, or into scalar code.
// Every operation is in the value domain, so that the byte order of the host does not matter.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(SPYRE_ISA) || !defined(SPYRE_SIMD_BYTES)
#error "base/simd.h is for sources named *_simd.cc, which are compiled once per instruction set"
#endif

#define SPYRE_INLINE static inline __attribute__((always_inline))
#define SPYRE_INLINE_MEMBER inline __attribute__((always_inline))

namespace spyre::base::simd::SPYRE_ISA {

/// Lanes of a 32-bit vector.
constexpr int lanes = SPYRE_SIMD_BYTES / 4;

typedef float F32 __attribute__((vector_size(SPYRE_SIMD_BYTES)));
typedef int32_t I32 __attribute__((vector_size(SPYRE_SIMD_BYTES)));
typedef uint32_t U32 __attribute__((vector_size(SPYRE_SIMD_BYTES)));
typedef int16_t I16 __attribute__((vector_size(SPYRE_SIMD_BYTES / 2)));  // `lanes` halfwords
typedef uint16_t U16 __attribute__((vector_size(SPYRE_SIMD_BYTES / 2)));
typedef int8_t I8 __attribute__((vector_size(SPYRE_SIMD_BYTES / 4)));  // `lanes` bytes
typedef uint8_t U8 __attribute__((vector_size(SPYRE_SIMD_BYTES / 4)));
typedef int64_t I64 __attribute__((vector_size(SPYRE_SIMD_BYTES * 2)));  // `lanes` doublewords
typedef int16_t I16x2 __attribute__((vector_size(SPYRE_SIMD_BYTES)));    // 2 * `lanes` halfwords
typedef uint16_t U16x2 __attribute__((vector_size(SPYRE_SIMD_BYTES)));

template <typename T>
SPYRE_INLINE T load(const void* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <typename T>
SPYRE_INLINE void store(void* p, T v) {
  __builtin_memcpy(p, &v, sizeof v);
}
// x - 0 is x for every x and costs nothing; x + 0 would turn -0 into 0.
SPYRE_INLINE F32 splat(float x) { return x - F32{}; }
SPYRE_INLINE I32 splat(int32_t x) { return I32{} + x; }
SPYRE_INLINE U32 splat(uint32_t x) { return U32{} + x; }
SPYRE_INLINE F32 as_f32(I32 v) { return (F32)v; }
SPYRE_INLINE F32 as_f32(U32 v) { return (F32)v; }
SPYRE_INLINE I32 as_i32(F32 v) { return (I32)v; }
SPYRE_INLINE U32 as_u32(F32 v) { return (U32)v; }

/// Whether any lane of a comparison's result is true.
#if defined(__AVX512F__) && SPYRE_SIMD_BYTES == 64
SPYRE_INLINE bool any(I32 mask) { return __builtin_ia32_ptestmd512(mask, mask, -1) != 0; }
#elif defined(__AVX2__) && SPYRE_SIMD_BYTES == 32
SPYRE_INLINE bool any(I32 mask) { return __builtin_ia32_movmskps256((F32)mask) != 0; }
#else
SPYRE_INLINE bool any(I32 mask) {
  typedef uint64_t Q __attribute__((vector_size(SPYRE_SIMD_BYTES)));
  const Q q = (Q)mask;
  uint64_t bits = 0;
#pragma GCC unroll 8
  for (int i = 0; i < SPYRE_SIMD_BYTES / 8; ++i) bits |= q[i];
  return bits != 0;
}
#endif

// ---- lanes of another width
// ------------------------------------------------------------------------------------------ The general form is
// __builtin_convertvector; GCC makes several instructions of it where x86 has one, hence the override.

#if defined(__AVX512BW__) && SPYRE_SIMD_BYTES == 64
typedef char Bytes16 __attribute__((vector_size(16)));
SPYRE_INLINE I32 widen(I16 v) { return (I32)__builtin_ia32_pmovsxwd512_mask(v, I32{}, 0xFFFF); }
SPYRE_INLINE I32 widen(U16 v) { return (I32)__builtin_ia32_pmovzxwd512_mask((I16)v, I32{}, 0xFFFF); }
SPYRE_INLINE I32 widen(U8 v) { return (I32)__builtin_ia32_pmovzxbd512_mask((Bytes16)v, I32{}, 0xFFFF); }
SPYRE_INLINE U16 narrow_u16(I32 v) { return (U16)__builtin_ia32_pmovdw512_mask(v, I16{}, 0xFFFF); }
SPYRE_INLINE U8 narrow_u8(I32 v) { return (U8)__builtin_ia32_pmovdb512_mask(v, Bytes16{}, 0xFFFF); }
#elif defined(__AVX2__) && SPYRE_SIMD_BYTES == 32
typedef char Bytes16 __attribute__((vector_size(16)));
SPYRE_INLINE I32 widen(I16 v) { return (I32)__builtin_ia32_pmovsxwd256(v); }
SPYRE_INLINE I32 widen(U16 v) { return (I32)__builtin_ia32_pmovzxwd256((I16)v); }
SPYRE_INLINE I32 widen(U8 v) {
  Bytes16 low = {};
  __builtin_memcpy(&low, &v, sizeof v);
  return (I32)__builtin_ia32_pmovzxbd256(low);
}
SPYRE_INLINE U16 narrow_u16(I32 v) { return __builtin_convertvector(v, U16); }
SPYRE_INLINE U8 narrow_u8(I32 v) {  // values are 0..255
  const I16 halves = (I16) __builtin_convertvector(v, U16);
  const Bytes16 bytes = (Bytes16)__builtin_ia32_packuswb128(halves, halves);
  U8 low;
  __builtin_memcpy(&low, &bytes, sizeof low);
  return low;
}
#else
SPYRE_INLINE I32 widen(I16 v) { return __builtin_convertvector(v, I32); }
SPYRE_INLINE I32 widen(U16 v) { return (I32) __builtin_convertvector(v, U32); }
SPYRE_INLINE I32 widen(U8 v) { return (I32) __builtin_convertvector(v, U32); }
SPYRE_INLINE U16 narrow_u16(I32 v) { return __builtin_convertvector(v, U16); }
SPYRE_INLINE U8 narrow_u8(I32 v) { return __builtin_convertvector(v, U8); }
#endif

// ---- number formats -------------------------------------------------------------------------------------------------

/// DL16 codes but 0x7FFF and 0xFFFF, sign-extended to 32 bits, to their values.
SPYRE_INLINE F32 decode_dl16_finite(I32 code) {
  const I32 placed = (code << 14) & (int32_t)0x9FFFC000;
  return as_f32((placed & 0x7FFFFFFF) == 0 ? placed : placed + 0x30000000);
}
/// All of them, with twice the instructions.
SPYRE_INLINE F32 decode_dl16(I32 code) {
  I32 v = as_i32(decode_dl16_finite(code));
  v = code == 0x7FFF ? splat((int32_t)0x7FC00000) : v;
  v = code == -1 ? splat((int32_t)0xFF800000) : v;
  return as_f32(v);
}
SPYRE_INLINE F32 load_dl16(const uint16_t* p) { return decode_dl16(widen(load<I16>(p))); }

/// Values to DL16 codes in the low halves; `largest` is what finite values out of range become (0x7FFE or 0x7FFF).
SPYRE_INLINE I32 encode_dl16(F32 value, int32_t largest) {
  const I32 bits = as_i32(value), magnitude = bits & 0x7FFFFFFF;
  I32 code = (I32)(((U32)magnitude + 0x2000) >> 14) - (96 << 9);
  const I32 least = magnitude >= 0x2F804000 ? splat(1) : splat(0);
  code = code > least ? code : least;
  code = code > largest ? splat(largest) : code;
  if (largest != 0x7FFF) code = magnitude >= 0x7F800000 ? splat(0x7FFF) : code;
  const I32 sign = (I32)((U32)bits >> 16) & 0x8000;
  return magnitude > 0x7F800000 ? splat(0x7FFF) : code | sign;
}
/// What decode_dl16 makes of encode_dl16(value, 0x7FFF), in half of the instructions.
SPYRE_INLINE F32 round_dl16(F32 value) {
  const I32 bits = as_i32(value), magnitude = bits & 0x7FFFFFFF, sign = bits & (int32_t)0x80000000;
  const U32 rounded = ((U32)magnitude + 0x2000) & 0xFFFFC000u;
  const I32 tiny = magnitude >= 0x2F804000 ? splat((int32_t)0x30004000) : splat(0);
  const I32 finite = (rounded > 0x30000000u ? (I32)rounded : tiny) | sign;
  const I32 outside = (sign != 0) & (magnitude <= 0x7F800000) ? splat((int32_t)0xFF800000) : splat(0x7FC00000);
  return as_f32(rounded >= 0x4FFFC000u ? outside : finite);
}
/// Values whose codes are finite: zero, or neither below half the smallest code nor above the largest. Nearly all are,
/// and take half of the instructions. `odd` reaches odd_dl16 where one is not: asked once for many vectors.
constexpr uint32_t odd_dl16 = 0x3FFF0000u;
SPYRE_INLINE U32 note_odd(I32 bits, U32 moved, U32 odd) {
  const U32 place = (bits & 0x7FFFFFFF) != 0 ? (moved << 1) - 0x8000u : U32{};
  return place > odd ? place : odd;
}
SPYRE_INLINE I32 encode_dl16_finite(F32 value, U32& odd) {
  const I32 bits = as_i32(value);
  const U32 moved = (U32)bits + (0x2000u - 0x30000000u);
  odd = note_odd(bits, moved, odd);
  const I32 code = (bits & 0x7FFFFFFF) != 0 ? (I32)(moved >> 14) & 0x7FFF : I32{};
  return code | ((I32)((U32)bits >> 16) & 0x8000);
}
SPYRE_INLINE F32 round_dl16_finite(F32 value, U32& odd) {
  const I32 bits = as_i32(value);
  odd = note_odd(bits, (U32)bits + (0x2000u - 0x30000000u), odd);
  return as_f32(((U32)bits + 0x2000) & 0xFFFFC000u);
}
SPYRE_INLINE void store_u16(uint16_t* p, I32 v) { store(p, narrow_u16(v)); }
/// encode_dl16 of some vectors in a row.
template <int count>
SPYRE_INLINE void encode_dl16_block(const float* from, uint16_t* to, int32_t largest) {
  U32 odd = {};
#pragma GCC unroll 16
  for (int v = 0; v < count; ++v) store_u16(to + v * lanes, encode_dl16_finite(load<F32>(from + v * lanes), odd));
  if (__builtin_expect(!any(odd >= odd_dl16), 1)) return;
  for (int v = 0; v < count; ++v) store_u16(to + v * lanes, encode_dl16(load<F32>(from + v * lanes), largest));
}
constexpr size_t dl16_block = 8 * lanes;
SPYRE_INLINE void store_u8(uint8_t* p, I32 v) { store(p, narrow_u8(v)); }

/// A small IEEE format of `mantissa` bits and bias `bias` to float32; `code` without its sign, `sign` at bit 31.
/// `special` is the first code that is not finite (infinities and NaNs, or NaN alone); the base 2^k whose ulp is the
/// smallest subnormal turns a subnormal into a float32 without meeting a float32 subnormal, which is slow.
template <int mantissa, int bias, int special, bool has_infinity>
SPYRE_INLINE F32 decode_ieee(I32 code, I32 sign) {
  constexpr int32_t base_bits = (127 + 23 + 1 - bias - mantissa) << 23;
  const I32 normal = (code << (23 - mantissa)) + ((127 - bias) << 23);
  const I32 tiny = as_i32(as_f32(code | base_bits) - as_f32(splat(base_bits)));
  I32 v = code < (1 << mantissa) ? tiny : normal;
  const I32 other = has_infinity ? (code << (23 - mantissa)) | 0x7F800000 : splat((int32_t)0x7FC00000);
  v = code >= special ? other : v;
  return as_f32(v | sign);
}
/// Float32 to the same formats: nearest, ties to even; from `limit` (float32 bits) on the code is `over`, NaN is `nan`.
template <int mantissa, int bias, int32_t limit, int over, int nan>
SPYRE_INLINE I32 encode_ieee(I32 magnitude) {
  constexpr int32_t base_bits = (127 + 23 + 1 - bias - mantissa) << 23;
  constexpr int shift = 23 - mantissa;
  const U32 rounded = (U32)magnitude + ((1 << (shift - 1)) - 1) + (((U32)magnitude >> shift) & 1);
  const I32 normal = (I32)(rounded >> shift) - ((127 - bias) << mantissa);
  const I32 tiny = as_i32(as_f32(magnitude) + as_f32(splat(base_bits))) - base_bits;
  I32 code = magnitude < ((127 + 1 - bias) << 23) ? tiny : normal;
  code = magnitude >= limit ? splat(over) : code;
  return magnitude > 0x7F800000 ? splat(nan) : code;
}
SPYRE_INLINE F32 decode_f16(I32 code) {
  return decode_ieee<10, 15, 0x7C00, true>(code & 0x7FFF, (code & 0x8000) << 16);
}
SPYRE_INLINE I32 encode_f16(F32 value) {
  const I32 bits = as_i32(value);
  return encode_ieee<10, 15, 0x477FF000, 0x7C00, 0x7E00>(bits & 0x7FFFFFFF) | ((bits >> 16) & 0x8000);
}
SPYRE_INLINE F32 decode_e4m3(I32 code) { return decode_ieee<3, 7, 0x7F, false>(code & 0x7F, (code & 0x80) << 24); }
SPYRE_INLINE I32 encode_e4m3(F32 value) {
  const I32 bits = as_i32(value);
  return encode_ieee<3, 7, 0x43E80000, 0x7E, 0x7F>(bits & 0x7FFFFFFF) | ((bits >> 24) & 0x80);
}
SPYRE_INLINE F32 decode_e5m2(I32 code) { return decode_ieee<2, 15, 0x7C, true>(code & 0x7F, (code & 0x80) << 24); }
SPYRE_INLINE I32 encode_e5m2(F32 value) {
  const I32 bits = as_i32(value);
  return encode_ieee<2, 15, 0x47800000, 0x7C, 0x7F>(bits & 0x7FFFFFFF) | ((bits >> 24) & 0x80);
}
SPYRE_INLINE F32 decode_bf16(I32 code) { return as_f32(code << 16); }
SPYRE_INLINE I32 encode_bf16(F32 value) {
  const U32 bits = as_u32(value);
  const I32 code = (I32)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? splat((int32_t)0x7FC0) : code;
}

}  // namespace spyre::base::simd::SPYRE_ISA
