// Elementwise float32 kernels: loops over whole vectors, four at a time, and one padded vector for the rest.
#include <math.h>

#include "card/host_math_simd.h"
#include "card/host_vector_simd.h"

namespace spyre::card::host::simd::SPYRE_ISA {
namespace {

SPYRE_INLINE F32 broadcast(float x) { return splat(x); }  // where a parameter is called splat

// The first n (< lanes) lanes; the others are `other`.
SPYRE_INLINE F32 load_part(const float* p, size_t n, float other) {
  float lane[lanes];
  for (int i = 0; i < lanes; ++i) lane[i] = other;
  for (size_t i = 0; i < n; ++i) lane[i] = p[i];
  return load<F32>(lane);
}
template <typename V, typename T>
SPYRE_INLINE void store_part(T* p, V v, size_t n) {
  T lane[lanes];
  store(lane, v);
  for (size_t i = 0; i < n; ++i) p[i] = lane[i];
}

// An operand: an array or one value for all lanes.
struct Array {
  const float* p;
  SPYRE_INLINE_MEMBER F32 at(size_t i) const { return load<F32>(p + i); }
  SPYRE_INLINE_MEMBER F32 part(size_t i, size_t n) const { return load_part(p + i, n, 1.0f); }
};
struct Value {
  F32 v;
  SPYRE_INLINE_MEMBER F32 at(size_t) const { return v; }
  SPYRE_INLINE_MEMBER F32 part(size_t, size_t) const { return v; }
};

// All four loads before the stores: the destination may be a source.
template <typename D, typename Fn, typename... Operands>
SPYRE_INLINE void map(D* dst, size_t n, Fn fn, Operands... operands) {
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto r0 = fn(operands.at(i)...), r1 = fn(operands.at(i + lanes)...), r2 = fn(operands.at(i + 2 * lanes)...),
               r3 = fn(operands.at(i + 3 * lanes)...);
    store(dst + i, r0);
    store(dst + i + lanes, r1);
    store(dst + i + 2 * lanes, r2);
    store(dst + i + 3 * lanes, r3);
  }
  for (; i + lanes <= n; i += lanes) store(dst + i, fn(operands.at(i)...));
  if (i < n) store_part(dst + i, fn(operands.part(i, n - i)...), n - i);
}

template <typename D, typename Fn>
SPYRE_INLINE void map2(D* dst, const float* a, const float* b, size_t n, Splat splat, Fn fn) {
  if (n == 0) return;
  switch (splat & 3) {
    case 0:
      return map(dst, n, fn, Array{a}, Array{b});
    case 1:
      return map(dst, n, fn, Value{broadcast(a[0])}, Array{b});
    case 2:
      return map(dst, n, fn, Array{a}, Value{broadcast(b[0])});
    default:
      return map(dst, n, fn, Value{broadcast(a[0])}, Value{broadcast(b[0])});
  }
}

// A kernel from a vector function, as a constant expression of the table.
#define SPYRE_UNARY(name, expression)                        \
  void name(float* dst, const float* a, size_t n) {          \
    map(dst, n, [](F32 x) { return expression; }, Array{a}); \
  }
SPYRE_UNARY(neg, as_f32(as_i32(x) ^ (int32_t)0x80000000))
SPYRE_UNARY(abs, abs_f32(x))
SPYRE_UNARY(square, x* x)
SPYRE_UNARY(sign, x > 0.0f ? splat(1.0f) : x < 0.0f ? splat(-1.0f) : x)
SPYRE_UNARY(rcp, 1.0f / x)
SPYRE_UNARY(exp, exp_f32(x))
SPYRE_UNARY(exp2, exp2_f32(x))
SPYRE_UNARY(expm1, expm1_f32(x))
SPYRE_UNARY(log, log_f32(x))
SPYRE_UNARY(log2, log2_f32(x))
SPYRE_UNARY(log1p, log1p_f32(x))
SPYRE_UNARY(to_dl16, round_dl16(x))
SPYRE_UNARY(tanh, tanh_f32(x))
SPYRE_UNARY(erf, erf_f32(x))
SPYRE_UNARY(sigmoid, 1.0f / (1.0f + exp_f32(as_f32(as_i32(x) ^ (int32_t)0x80000000))))

// Loops that the compiler turns into the instruction set's own rounding and square root.
#define SPYRE_LOOP(name, expression)                                         \
  void name(float* dst, const float* a, size_t n) {                          \
    _Pragma("GCC ivdep") for (size_t i = 0; i < n; ++i) dst[i] = expression; \
  }
SPYRE_LOOP(floor, __builtin_floorf(a[i]))
SPYRE_LOOP(ceil, __builtin_ceilf(a[i]))
SPYRE_LOOP(round, __builtin_rintf(a[i]))
SPYRE_LOOP(trunc, __builtin_truncf(a[i]))
SPYRE_LOOP(sqrt, __builtin_sqrtf(a[i]))
SPYRE_LOOP(rsqrt, 1.0f / __builtin_sqrtf(a[i]))

// Vectors with an argument past the reduction's limit, or one that isn't finite, go through libm lane by lane.
template <typename Fn>
SPYRE_INLINE F32 within(F32 x, Fn fast, float (*slow)(float)) {
  F32 r = fast(x);
  if (__builtin_expect(any(!(abs_f32(x) <= sin_limit)), 0))
    for (int i = 0; i < lanes; ++i)
      if (!(__builtin_fabsf(x[i]) <= sin_limit)) r[i] = slow(x[i]);
  return r;
}
SPYRE_UNARY(sin, within(x, [](F32 v) { return v == 0.0f ? v : sin_cos(v).sin; }, ::sinf))
SPYRE_UNARY(cos, within(x, [](F32 v) { return sin_cos(v).cos; }, ::cosf))
SPYRE_UNARY(tan, within(
                     x,
                     [](F32 v) {
                       const SinCos s = sin_cos(v);
                       return v == 0.0f ? v : s.sin / s.cos;
                     },
                     ::tanf))

#define SPYRE_BINARY(name, expression)                                           \
  void name(float* dst, const float* a, const float* b, size_t n, Splat splat) { \
    map2(dst, a, b, n, splat, [](F32 x, F32 y) { return expression; });          \
  }
SPYRE_BINARY(add, x + y)
SPYRE_BINARY(sub, x - y)
SPYRE_BINARY(mul, x* y)

#if defined(__FMA__)
// Many lanes over one divisor, by its reciprocal: the remainder corrects the product to the rounded quotient
// (Markstein: exact when the reciprocal is rounded to nearest and nothing leaves the normal numbers). Vectors with
// other lanes, zeros among them, are divided.
SPYRE_INLINE F32 divide_by(F32 x, F32 y, F32 reciprocal) {
  constexpr int32_t low = (127 - 60) << 23, high = (127 + 60) << 23;
  const U32 place = (U32)(as_i32(x) & 0x7FFFFFFF) - low;
  if (__builtin_expect(any((I32)(place >= splat((uint32_t)(high - low)))), 0)) return x / y;
  const F32 q = x * reciprocal;
  return (x - q * y) * reciprocal + q;
}
void div(float* dst, const float* a, const float* b, size_t n, Splat splat) {
  if ((splat & 3) == splat_second && n >= 4 * lanes) {
    const float y = b[0], size = __builtin_fabsf(y);
    if (size >= 0x1p-60f && size <= 0x1p60f) {
      const F32 divisor = broadcast(y), reciprocal = broadcast(1.0f / y);
      return map(dst, n, [=](F32 x) { return divide_by(x, divisor, reciprocal); }, Array{a});
    }
  }
  map2(dst, a, b, n, splat, [](F32 x, F32 y) { return x / y; });
}
#else
SPYRE_BINARY(div, x / y)
#endif
SPYRE_BINARY(min, min_f32(x, y))
SPYRE_BINARY(max, max_f32(x, y))

// One value for all lanes is read before the destination, which may be its array, is written.
SPYRE_INLINE void lane_by_lane(float* dst, const float* a, const float* b, size_t n, Splat splat,
                               float (*fn)(float, float)) {
  const float x = a[0], y = b[0];
  for (size_t i = 0; i < n; ++i) dst[i] = fn(splat & splat_first ? x : a[i], splat & splat_second ? y : b[i]);
}
// libm lane by lane, except for the exponents that models use.
void pow(float* dst, const float* a, const float* b, size_t n, Splat splat) {
  if (n == 0) return;
  if ((splat & 3) == splat_second) {
    if (b[0] == 1.0f) return map(dst, n, [](F32 x) { return x; }, Array{a});
    if (b[0] == 2.0f) return map(dst, n, [](F32 x) { return x * x; }, Array{a});
    if (b[0] == 3.0f) return map(dst, n, [](F32 x) { return x * x * x; }, Array{a});
    if (b[0] == -1.0f) return map(dst, n, [](F32 x) { return 1.0f / x; }, Array{a});
  }
  lane_by_lane(dst, a, b, n, splat, ::powf);
}
void fmod(float* dst, const float* a, const float* b, size_t n, Splat splat) {
  if (n > 0) lane_by_lane(dst, a, b, n, splat, ::fmodf);
}

#define SPYRE_COMPARE(name, op)                                                     \
  void name(int32_t* mask, const float* a, const float* b, size_t n, Splat splat) { \
    map2(mask, a, b, n, splat, [](F32 x, F32 y) { return (I32)(x op y); });         \
  }
SPYRE_COMPARE(lt, <)
SPYRE_COMPARE(le, <=)
SPYRE_COMPARE(gt, >)
SPYRE_COMPARE(ge, >=)
SPYRE_COMPARE(eq, ==)
SPYRE_COMPARE(ne, !=)

void is_nan(int32_t* mask, const float* a, size_t n) {
  map(mask, n, [](F32 x) { return (I32)(x != x); }, Array{a});
}

void fma(float* dst, const float* a, const float* b, const float* c, size_t n, Splat splat) {
  if (n == 0) return;
  const auto run = [=](auto x, auto y, auto z) { map(dst, n, [](F32 p, F32 q, F32 r) { return p * q + r; }, x, y, z); };
  const Array x{a}, y{b}, z{c};
  const Value u{broadcast(a[0])}, v{broadcast(b[0])}, w{broadcast(c[0])};
  switch (splat & 7) {
    case 0:
      return run(x, y, z);
    case 1:
      return run(u, y, z);
    case 2:
      return run(x, v, z);
    case 3:
      return run(u, v, z);
    case 4:
      return run(x, y, w);
    case 5:
      return run(u, y, w);
    case 6:
      return run(x, v, w);
    default:
      return run(u, v, w);
  }
}

}  // namespace

const FloatTable& float_table() {
  static const FloatTable table = {{neg, abs,  square, sign, rcp,   floor, ceil, round, trunc, exp, exp2,    expm1,
                                    log, log2, log1p,  sqrt, rsqrt, sin,   cos,  tan,   tanh,  erf, sigmoid, to_dl16},
                                   {add, sub, mul, div, min, max, pow, fmod},
                                   {lt, le, gt, ge, eq, ne},
                                   fma,
                                   is_nan};
  return table;
}

}  // namespace spyre::card::host::simd::SPYRE_ISA
