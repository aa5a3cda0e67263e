#include "base/convert_simd.h"

#include "base/simd.h"

namespace spyre::base::simd::SPYRE_ISA {
namespace {

// Calls body(i) for whole vectors and, for the rest, once on buffers padded to a vector.
template <typename S, typename D, typename Body>
SPYRE_INLINE void strip(const S* src, D* dst, size_t n, Body body) {
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) body(src + i + u * lanes, dst + i + u * lanes);
  }
  for (; i + lanes <= n; i += lanes) body(src + i, dst + i);
  if (i < n) {
    S s[lanes] = {};
    D d[lanes];
    for (size_t j = i; j < n; ++j) s[j - i] = src[j];
    body(s, d);
    for (size_t j = i; j < n; ++j) dst[j] = d[j - i];
  }
}

SPYRE_INLINE I32 load_u16(const uint16_t* p) { return (I32) __builtin_convertvector(load<U16>(p), U32); }
SPYRE_INLINE I32 load_u8(const uint8_t* p) { return (I32) __builtin_convertvector(load<U8>(p), U32); }

void dl16_to_f32(const uint16_t* src, float* dst, size_t n) {
  strip(src, dst, n, [](const uint16_t* s, float* d) { store(d, load_dl16(s)); });
}
template <int32_t largest>
SPYRE_INLINE void f32_to_dl16(const float* src, uint16_t* dst, size_t n) {
  size_t i = 0;
  for (; i + dl16_block <= n; i += dl16_block) encode_dl16_block<dl16_block / lanes>(src + i, dst + i, largest);
  strip(src + i, dst + i, n - i, [](const float* s, uint16_t* d) { store_u16(d, encode_dl16(load<F32>(s), largest)); });
}
void f32_to_dl16_saturate(const float* src, uint16_t* dst, size_t n) { f32_to_dl16<0x7FFE>(src, dst, n); }
void f32_to_dl16_infinity(const float* src, uint16_t* dst, size_t n) { f32_to_dl16<0x7FFF>(src, dst, n); }
void f16_to_f32(const uint16_t* src, float* dst, size_t n) {
  strip(src, dst, n, [](const uint16_t* s, float* d) { store(d, decode_f16(load_u16(s))); });
}
void f32_to_f16(const float* src, uint16_t* dst, size_t n) {
  strip(src, dst, n, [](const float* s, uint16_t* d) { store_u16(d, encode_f16(load<F32>(s))); });
}
void bf16_to_f32(const uint16_t* src, float* dst, size_t n) {
  strip(src, dst, n, [](const uint16_t* s, float* d) { store(d, decode_bf16(load_u16(s))); });
}
void f32_to_bf16(const float* src, uint16_t* dst, size_t n) {
  strip(src, dst, n, [](const float* s, uint16_t* d) { store_u16(d, encode_bf16(load<F32>(s))); });
}
void e4m3_to_f32(const uint8_t* src, float* dst, size_t n) {
  strip(src, dst, n, [](const uint8_t* s, float* d) { store(d, decode_e4m3(load_u8(s))); });
}
void f32_to_e4m3(const float* src, uint8_t* dst, size_t n) {
  strip(src, dst, n, [](const float* s, uint8_t* d) { store_u8(d, encode_e4m3(load<F32>(s))); });
}
void e5m2_to_f32(const uint8_t* src, float* dst, size_t n) {
  strip(src, dst, n, [](const uint8_t* s, float* d) { store(d, decode_e5m2(load_u8(s))); });
}
void f32_to_e5m2(const float* src, uint8_t* dst, size_t n) {
  strip(src, dst, n, [](const float* s, uint8_t* d) { store_u8(d, encode_e5m2(load<F32>(s))); });
}
void b8_to_f32(const uint8_t* src, float* dst, size_t n) {
  strip(src, dst, n, [](const uint8_t* s, float* d) { store(d, as_f32((load_u8(s) != 0) & 0x3F800000)); });
}
void f32_to_b8(const float* src, uint8_t* dst, size_t n) {
  strip(src, dst, n, [](const float* s, uint8_t* d) { store_u8(d, (load<F32>(s) != 0.0f) & 1); });
}

// Normal halves and zeros convert in 16-bit lanes; a strip with anything else goes through float32.
constexpr int halfwords = 2 * lanes;
constexpr int group = 4 * halfwords;

SPYRE_INLINE void f16_to_dl16_any(const uint16_t* src, uint16_t* dst, size_t n) {
  strip(src, dst, n,
        [](const uint16_t* s, uint16_t* d) { store_u16(d, encode_dl16(decode_f16(load_u16(s)), 0x7FFE)); });
}

void f16_to_dl16(const uint16_t* src, uint16_t* dst, size_t n) {
  size_t i = 0;
  for (; i + group <= n; i += group) {
    I16x2 odd = {};
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const I16x2 code = load<I16x2>(src + i + u * halfwords);
      const I16x2 magnitude = code & 0x7FFF;
      // Between 0x0001 and 0x03FF (subnormal) or from 0x7C00 on (infinity, NaN): a bias turns both into one comparison.
      odd |= (I16x2)((U16x2)magnitude - 0x400 >= (U16x2){} + 0x7800) & (magnitude != 0);
      const I16x2 value = (I16x2)(((U16x2)magnitude + 1) >> 1) + (16 << 9);
      store(dst + i + u * halfwords, (magnitude == 0 ? magnitude : value) | (code & (int16_t)0x8000));
    }
    bool any = false;
    typedef uint64_t Q __attribute__((vector_size(SPYRE_SIMD_BYTES)));
    const Q q = (Q)odd;
    uint64_t bits = 0;
#pragma GCC unroll 8
    for (int j = 0; j < SPYRE_SIMD_BYTES / 8; ++j) bits |= q[j];
    any = bits != 0;
    if (__builtin_expect(any, 0)) f16_to_dl16_any(src + i, dst + i, group);
  }
  f16_to_dl16_any(src + i, dst + i, n - i);
}

SPYRE_INLINE void dl16_to_f16_any(const uint16_t* src, uint16_t* dst, size_t n) {
  strip(src, dst, n, [](const uint16_t* s, uint16_t* d) {
    const I32 code = load_u16(s);
    const I32 half = encode_f16(load_dl16(s));
    store_u16(d, (code & 0x7FFF) == 0x5E00 ? (half & 0x8000) | 0x7BFF : half);  // 0x5E00 is 65536
  });
}

void dl16_to_f16(const uint16_t* src, uint16_t* dst, size_t n) {
  constexpr int16_t first = 17 << 9, last = 47 << 9;  // 2^-14 and 65536: normal halves lie between
  size_t i = 0;
  for (; i + group <= n; i += group) {
    I16x2 odd = {};
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const I16x2 code = load<I16x2>(src + i + u * halfwords);
      const I16x2 magnitude = code & 0x7FFF;
      odd |= ((magnitude < first) | (magnitude >= last)) & (magnitude != 0);
      const I16x2 value = (magnitude - (16 << 9)) << 1;
      store(dst + i + u * halfwords, (magnitude == 0 ? magnitude : value) | (code & (int16_t)0x8000));
    }
    typedef uint64_t Q __attribute__((vector_size(SPYRE_SIMD_BYTES)));
    const Q q = (Q)odd;
    uint64_t bits = 0;
#pragma GCC unroll 8
    for (int j = 0; j < SPYRE_SIMD_BYTES / 8; ++j) bits |= q[j];
    if (__builtin_expect(bits != 0, 0)) dl16_to_f16_any(src + i, dst + i, group);
  }
  dl16_to_f16_any(src + i, dst + i, n - i);
}

void bf16_to_dl16(const uint16_t* src, uint16_t* dst, size_t n) {
  strip(src, dst, n,
        [](const uint16_t* s, uint16_t* d) { store_u16(d, encode_dl16(decode_bf16(load_u16(s)), 0x7FFE)); });
}
void dl16_to_bf16(const uint16_t* src, uint16_t* dst, size_t n) {
  strip(src, dst, n, [](const uint16_t* s, uint16_t* d) { store_u16(d, encode_bf16(load_dl16(s))); });
}
void b8_to_dl16(const uint8_t* src, uint16_t* dst, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = src[i] ? 0x3E00 : 0;
}
void dl16_to_b8(const uint16_t* src, uint8_t* dst, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = (src[i] & 0x7FFF) != 0;
}

size_t i64_to_i32(const int64_t* src, int32_t* dst, size_t n) {
  constexpr size_t block = 256;
  for (size_t i = 0; i < n; i += block) {
    const size_t end = n - i < block ? n : i + block;
    uint64_t outside = 0;
    for (size_t j = i; j < end; ++j) {
      dst[j] = (int32_t)src[j];
      outside |= ((uint64_t)src[j] + 0x80000000u) >> 32;
    }
    if (outside)
      for (size_t j = i; j < end; ++j)
        if (src[j] != (int32_t)src[j]) return j;
  }
  return n;
}
void i32_to_i64(const int32_t* src, int64_t* dst, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = src[i];
}
void u8_to_u32(const uint8_t* src, uint32_t* dst, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = src[i];
}
void u32_to_u8(const uint32_t* src, uint8_t* dst, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = (uint8_t)src[i];
}

}  // namespace

const ConvertTable& convert_table() {
  static const ConvertTable table = {
      dl16_to_f32, f32_to_dl16_saturate, f32_to_dl16_infinity, f16_to_f32,   f32_to_f16,   bf16_to_f32,
      f32_to_bf16, e4m3_to_f32,          f32_to_e4m3,          e5m2_to_f32,  f32_to_e5m2,  b8_to_f32,
      f32_to_b8,   f16_to_dl16,          dl16_to_f16,          bf16_to_dl16, dl16_to_bf16, b8_to_dl16,
      dl16_to_b8,  i64_to_i32,           i32_to_i64,           u8_to_u32,    u32_to_u8};
  return table;
}

}  // namespace spyre::base::simd::SPYRE_ISA
