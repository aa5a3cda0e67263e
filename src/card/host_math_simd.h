// Elementary functions of float32 vectors, for `*_simd.cc` sources only. Coefficients are minimax fits made for these
// intervals; errors are asserted by host_vector_test.cc.
#pragma once

#include "base/simd.h"

namespace spyre::card::host::simd::SPYRE_ISA {

using namespace base::simd::SPYRE_ISA;

SPYRE_INLINE F32 abs_f32(F32 x) { return as_f32(as_i32(x) & 0x7FFFFFFF); }
SPYRE_INLINE F32 copy_sign(F32 magnitude, F32 sign) {
  return as_f32((as_i32(magnitude) & 0x7FFFFFFF) | (as_i32(sign) & (int32_t)0x80000000));
}

/// |v| < 2^22 to the nearest integer: adding 1.5 * 2^23 leaves it in the low bits of the sum.
struct Rounded {
  F32 value;
  I32 integer;
};
SPYRE_INLINE Rounded round_small(F32 v) {
  const F32 sum = v + 12582912.0f;
  return {sum - 12582912.0f, (I32)(as_u32(sum) - 0x4B400000)};
}

// Overrides where one instruction does what the general form needs several for.
#if defined(__AVX512F__) && SPYRE_SIMD_BYTES == 64
SPYRE_INLINE F32 smaller(F32 x, F32 y) { return __builtin_ia32_minps512_mask(x, y, F32{}, -1, 4); }
SPYRE_INLINE F32 larger(F32 x, F32 y) { return __builtin_ia32_maxps512_mask(x, y, F32{}, -1, 4); }
SPYRE_INLINE F32 at_most(F32 x, float limit) { return __builtin_ia32_minps512_mask(splat(limit), x, F32{}, -1, 4); }
SPYRE_INLINE F32 at_least(F32 x, float limit) { return __builtin_ia32_maxps512_mask(splat(limit), x, F32{}, -1, 4); }
SPYRE_INLINE F32 scale(F32 p, Rounded n) { return __builtin_ia32_scalefps512_mask(p, n.value, F32{}, -1, 4); }
#else
/// The smaller (larger) of two, y where either is NaN.
#if defined(__AVX2__) && SPYRE_SIMD_BYTES == 32
SPYRE_INLINE F32 smaller(F32 x, F32 y) { return __builtin_ia32_minps256(x, y); }
SPYRE_INLINE F32 larger(F32 x, F32 y) { return __builtin_ia32_maxps256(x, y); }
#else
SPYRE_INLINE F32 smaller(F32 x, F32 y) { return x < y ? x : y; }
SPYRE_INLINE F32 larger(F32 x, F32 y) { return x > y ? x : y; }
#endif
/// x, but no more (no less) than the limit; NaN stays.
SPYRE_INLINE F32 at_most(F32 x, float limit) { return x > limit ? splat(limit) : x; }
SPYRE_INLINE F32 at_least(F32 x, float limit) { return x < limit ? splat(limit) : x; }
/// p * 2^n in two steps, so that neither factor leaves float32 for n in -252..254 and a subnormal result is rounded
/// once.
SPYRE_INLINE F32 scale(F32 p, Rounded n) {
  const I32 half = n.integer >> 1, rest = n.integer - half;
  return p * as_f32((half + 127) << 23) * as_f32((rest + 127) << 23);
}
#endif

/// NaN if either is.
SPYRE_INLINE F32 min_f32(F32 x, F32 y) { return x != x ? x : smaller(x, y); }
SPYRE_INLINE F32 max_f32(F32 x, F32 y) { return x != x ? x : larger(x, y); }

/// exp(r) = 1 + r + r^2 P(r) for |r| <= ln 2 / 2; this is r^2 P(r).
SPYRE_INLINE F32 exp_tail(F32 r) {
  F32 p = splat(1.3813144505e-03f);
  p = p * r + 8.3694188355e-03f;
  p = p * r + 4.1668456787e-02f;
  p = p * r + 1.6666514791e-01f;
  p = p * r + 4.9999993051e-01f;
  return p * (r * r);
}
constexpr float ln2_high = 0.693359375f;  // few bits: n * ln2_high is exact
constexpr float ln2_low = -2.12194440e-4f;
constexpr float log2_e = 1.44269504f;

struct Exponent {
  F32 rest;  // x - n ln 2
  Rounded n;
};
SPYRE_INLINE Exponent exp_reduce(F32 x) {
  const Rounded n = round_small(x * log2_e);
  return {(x - n.value * ln2_high) - n.value * ln2_low, n};
}

SPYRE_INLINE F32 exp_f32(F32 x) {
  const Exponent e = exp_reduce(at_most(at_least(x, -104.0f), 89.0f));
  return scale(1.0f + (e.rest + exp_tail(e.rest)), e.n);
}

SPYRE_INLINE F32 exp2_f32(F32 x) {
  x = at_most(at_least(x, -151.0f), 129.0f);
  const Rounded n = round_small(x);
  const F32 f = x - n.value;
  const F32 r = f * 0.693147182f;
  return scale(1.0f + (f * -1.90465421e-9f + r + exp_tail(r)), n);
}

SPYRE_INLINE F32 expm1_f32(F32 x) {
  const Exponent e = exp_reduce(at_most(at_least(x, -25.0f), 89.0f));
  const F32 q = e.rest + exp_tail(e.rest);
  // 2^n q + (2^n - 1), at half its size: 2^128 is no float32.
  const F32 half = as_f32((e.n.integer + 126) << 23);
  const F32 result = (half * q + (half - 0.5f)) * 2.0f;
  return abs_f32(x) < 0x1p-12f ? x * (0.5f * x + 1.0f) : result;  // keeps the sign of zero
}

/// m in [sqrt(1/2), sqrt(2)) and e with x = m 2^e, for normal x.
struct Split {
  F32 m, e;
};
SPYRE_INLINE Split split_f32(F32 x, I32 bias) {
  const I32 shifted = (I32)(as_u32(x) - 0x3F3504F3);  // bits of sqrt(1/2)
  const I32 e = shifted >> 23;
  return {as_f32((shifted & 0x007FFFFF) + 0x3F3504F3), __builtin_convertvector(e - bias, F32)};
}
/// log(1 + f) - f for f of [sqrt(1/2) - 1, sqrt(2) - 1).
SPYRE_INLINE F32 log_tail(F32 f) {
  F32 q = splat(6.7466403295e-02f);
  q = q * f + -1.1675651773e-01f;
  q = q * f + 1.1888162323e-01f;
  q = q * f + -1.2405588931e-01f;
  q = q * f + 1.4219552355e-01f;
  q = q * f + -1.6667995853e-01f;
  q = q * f + 2.0002118659e-01f;
  q = q * f + -2.5000009599e-01f;
  q = q * f + 3.3333312604e-01f;
  const F32 z = f * f;
  return q * f * z - 0.5f * z;
}
/// Results for what has no logarithm: negative numbers and NaN give NaN, zero -Inf, +Inf itself.
SPYRE_INLINE F32 log_special(F32 x, F32 result) {
  result = x == __builtin_inff() ? x : result;
  result = x == 0.0f ? splat(-__builtin_inff()) : result;
  return x >= 0.0f ? result : splat(__builtin_nanf(""));
}
SPYRE_INLINE Split log_split(F32 x) {
  const I32 tiny = x < 0x1p-126f;
  return split_f32(tiny ? x * 0x1p23f : x, tiny & 23);
}
SPYRE_INLINE F32 log_f32(F32 x) {
  const Split s = log_split(x);
  const F32 f = s.m - 1.0f;
  return log_special(x, (f + (log_tail(f) + s.e * ln2_low)) + s.e * ln2_high);
}
SPYRE_INLINE F32 log2_f32(F32 x) {
  const Split s = log_split(x);
  const F32 f = s.m - 1.0f, t = log_tail(f);
  // f log2(e) in two parts: the leading bits of f make an exact product with those of log2(e).
  const F32 f_high = as_f32(as_i32(f) & (int32_t)0xFFFFF000);
  const F32 f_low = (f - f_high) + t;
  const F32 low = f_low * 1.44269504f + f_high * 3.1222839e-4f;
  return log_special(x, (low + f_high * 1.4423828125f) + s.e);
}
SPYRE_INLINE F32 log1p_f32(F32 x) {
  const F32 u = 1.0f + x;
  const F32 lost = (x - (u - 1.0f)) / u;  // what rounding took from 1 + x, to first order in the logarithm
  const F32 result = log_f32(u) + lost;
  const F32 finite = u > 0.0f ? result : log_f32(u);
  F32 out = u == __builtin_inff() ? u : finite;
  return u == 1.0f ? x : out;
}

/// Sine and cosine for |x| <= 8192; `fits` says where.
struct SinCos {
  F32 sin, cos;
};
constexpr float sin_limit = 8192.0f;
SPYRE_INLINE SinCos sin_cos(F32 x) {
  const Rounded n = round_small(x * 0.636619772f);
  F32 r = x - n.value * 1.5703125f;  // pi / 2 in three parts; the first two have few bits
  r = r - n.value * 4.8375129699707e-4f;
  r = r - n.value * 7.5497899548918821e-8f;
  const F32 z = r * r;
  F32 s = splat(-1.9508741207e-04f);
  s = s * z + 8.3321130397e-03f;
  s = s * z + -1.6666653864e-01f;
  s = s * z * r + r;
  F32 c = splat(2.4425681535e-05f);
  c = c * z + -1.3887251485e-03f;
  c = c * z + 4.1666644368e-02f;
  c = c * (z * z) + (1.0f - 0.5f * z);
  const I32 odd = (n.integer & 1) != 0;
  const F32 a = odd ? c : s, b = odd ? s : c;
  const I32 sin_sign = (n.integer & 2) << 30, cos_sign = ((n.integer + 1) & 2) << 30;
  return {as_f32(as_i32(a) ^ sin_sign), as_f32(as_i32(b) ^ cos_sign)};
}

SPYRE_INLINE F32 clip_one(F32 v) { return at_least(at_most(v, 1.0f), -1.0f); }
SPYRE_INLINE F32 tanh_f32(F32 x) {
  const F32 v = at_least(at_most(x, 9.02f), -9.02f);
  const F32 z = v * v;
  F32 p = splat(-8.4361473119e-14f);
  p = p * z + 5.2578192869e-11f;
  p = p * z + -2.0184051232e-08f;
  p = p * z + 1.1144276166e-05f;
  p = p * z + 3.1030032309e-03f;
  p = p * z + 1.3083158546e-01f;
  p = p * z + 9.9999999323e-01f;
  F32 q = splat(2.5447539475e-04f);
  q = q * z + 2.4491388486e-02f;
  q = q * z + 4.6416485507e-01f;
  q = q * z + 1.0f;
  return clip_one(v * p / q);
}
SPYRE_INLINE F32 erf_f32(F32 x) {
  const F32 v = at_least(at_most(x, 3.95f), -3.95f);
  const F32 z = v * v;
  F32 p = splat(2.0258985955e-06f);
  p = p * z + 2.8468823891e-04f;
  p = p * z + 3.8081963030e-03f;
  p = p * z + 5.2875555966e-02f;
  p = p * z + 1.9155115813e-01f;
  p = p * z + 1.1283791437e+00f;
  F32 q = splat(3.7831728590e-05f);
  q = q * z + 1.1707336021e-03f;
  q = q * z + 1.5055160766e-02f;
  q = q * z + 1.1455997131e-01f;
  q = q * z + 5.0309046953e-01f;
  q = q * z + 1.0f;
  return clip_one(v * p / q);
}

}  // namespace spyre::card::host::simd::SPYRE_ISA
