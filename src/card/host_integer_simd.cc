// Elementwise int32 kernels, selections, casts and the random generator: plain loops that the compiler vectorises.
#include "card/host_math_simd.h"
#include "card/host_vector_simd.h"

namespace spyre::card::host::simd::SPYRE_ISA {
namespace {

struct Result {
  int32_t value;
  unsigned status;  // nonzero: of I32Status
};
SPYRE_INLINE Result narrow(int64_t exact) {
  return {(int32_t)exact, (int32_t)exact != exact ? i32_overflow : i32_exact};
}

// dst[i] = fn of the operands' element i.
template <typename D, typename Fn, typename... Operands>
SPYRE_INLINE void map(D* dst, size_t n, Fn fn, Operands... operands) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) dst[i] = (D)fn(operands(i)...);
}
// The same for an fn that gives a Result.
template <typename Fn, typename... Operands>
SPYRE_INLINE I32Status map_status(int32_t* dst, size_t n, Fn fn, Operands... operands) {
  unsigned status = 0;
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const Result r = fn(operands(i)...);
    dst[i] = r.value;
    status |= r.status;
  }
  return (I32Status)status;
}

// An operand: an array, or one value for all lanes (read before a destination that may be its array is written).
template <typename T>
SPYRE_INLINE auto array(const T* p) {
  return [p](size_t i) { return p[i]; };
}
SPYRE_INLINE auto value(const int32_t* p) {
  return [v = *p](size_t) { return v; };
}

// Calls run with an array or a value for each operand, by the bits of splat.
template <typename Run>
SPYRE_INLINE auto with_operands(Splat splat, const int32_t* a, const int32_t* b, Run run) {
  switch (splat & 3) {
    case 0:
      return run(array(a), array(b));
    case 1:
      return run(value(a), array(b));
    case 2:
      return run(array(a), value(b));
    default:
      return run(value(a), value(b));
  }
}

template <typename Fn>
SPYRE_INLINE I32Status map1(int32_t* dst, const int32_t* a, size_t n, Fn fn) {
  return map_status(dst, n, fn, array(a));
}
template <typename Fn>
SPYRE_INLINE I32Status map2(int32_t* dst, const int32_t* a, const int32_t* b, size_t n, Splat splat, Fn fn) {
  if (n == 0) return i32_exact;
  return with_operands(splat, a, b, [=](auto x, auto y) { return map_status(dst, n, fn, x, y); });
}

#define SPYRE_UNARY(name, expression)                                       \
  I32Status name(int32_t* dst, const int32_t* a, size_t n) {                \
    return map1(dst, a, n, [](int32_t x) -> Result { return expression; }); \
  }
SPYRE_UNARY(neg, (Result{(int32_t)(0u - (uint32_t)x), x == INT32_MIN ? 1u : 0u}))
SPYRE_UNARY(abs, (Result{(int32_t)(x < 0 ? 0u - (uint32_t)x : (uint32_t)x), x == INT32_MIN ? 1u : 0u}))
SPYRE_UNARY(square, narrow((int64_t)x* x))
SPYRE_UNARY(sign, (Result{(x > 0) - (x < 0), 0u}))
SPYRE_UNARY(bit_not, (Result{~x, 0u}))

#define SPYRE_BINARY(name, expression)                                                           \
  I32Status name(int32_t* dst, const int32_t* a, const int32_t* b, size_t n, Splat splat) {      \
    return map2(dst, a, b, n, splat, [](int32_t x, int32_t y) -> Result { return expression; }); \
  }
SPYRE_INLINE Result add_i32(int32_t x, int32_t y) {
  const int32_t r = (int32_t)((uint32_t)x + (uint32_t)y);
  return {r, (uint32_t)((x ^ r) & (y ^ r)) >> 31};
}
SPYRE_INLINE Result sub_i32(int32_t x, int32_t y) {
  const int32_t r = (int32_t)((uint32_t)x - (uint32_t)y);
  return {r, (uint32_t)((x ^ y) & (x ^ r)) >> 31};
}
// The one quotient outside int32 is INT32_MIN / -1, which wraps to INT32_MIN.
SPYRE_INLINE Result div_i32(int32_t x, int32_t y) {
  if (y == 0) return {0, i32_zero_division};
  return narrow((int64_t)x / y);
}
SPYRE_INLINE Result floor_div_i32(int32_t x, int32_t y) {
  if (y == 0) return {0, i32_zero_division};
  const int64_t q = (int64_t)x / y, r = (int64_t)x - q * y;
  return narrow(q - (r != 0 && (r < 0) != (y < 0)));
}
SPYRE_INLINE Result remainder_i32(int32_t x, int32_t y) {
  if (y == 0) return {0, i32_zero_division};
  const int64_t r = (int64_t)x % y;
  return {(int32_t)(r != 0 && (r < 0) != (y < 0) ? r + y : r), i32_exact};
}
SPYRE_INLINE Result shl_i32(int32_t x, int32_t y) {
  const bool inside = (uint32_t)y < 32;
  const int32_t s = inside ? y : 0;
  const int32_t r = inside ? (int32_t)((uint32_t)x << s) : 0;
  return {r, inside && (r >> s) != x ? i32_overflow : i32_exact};
}
SPYRE_INLINE Result shr_i32(int32_t x, int32_t y) { return {x >> ((uint32_t)y < 32 ? y : 31), i32_exact}; }
SPYRE_BINARY(add, add_i32(x, y))
SPYRE_BINARY(sub, sub_i32(x, y))
SPYRE_BINARY(mul, narrow((int64_t)x* y))
SPYRE_BINARY(div, div_i32(x, y))
SPYRE_BINARY(floor_div, floor_div_i32(x, y))
SPYRE_BINARY(remainder, remainder_i32(x, y))
SPYRE_BINARY(min, (Result{x < y ? x : y, 0u}))
SPYRE_BINARY(max, (Result{x > y ? x : y, 0u}))
SPYRE_BINARY(bit_and, (Result{x & y, 0u}))
SPYRE_BINARY(bit_or, (Result{x | y, 0u}))
SPYRE_BINARY(bit_xor, (Result{x ^ y, 0u}))
SPYRE_BINARY(shl, shl_i32(x, y))
SPYRE_BINARY(shr, shr_i32(x, y))

#define SPYRE_COMPARE(name, op)                                                                          \
  void name(int32_t* mask, const int32_t* a, const int32_t* b, size_t n, Splat splat) {                  \
    map2(mask, a, b, n, splat, [](int32_t x, int32_t y) -> Result { return {-(int32_t)(x op y), 0u}; }); \
  }
SPYRE_COMPARE(lt, <)
SPYRE_COMPARE(le, <=)
SPYRE_COMPARE(gt, >)
SPYRE_COMPARE(ge, >=)
SPYRE_COMPARE(eq, ==)
SPYRE_COMPARE(ne, !=)

void select(int32_t* dst, const int32_t* mask, const int32_t* a, const int32_t* b, size_t n, Splat splat) {
  if (n == 0) return;
  const auto run = [=](auto y) {
    with_operands(splat, mask, a, [=](auto m, auto x) {
      map(dst, n, [](int32_t f, int32_t p, int32_t q) { return (f & p) | (~f & q); }, m, x, y);
    });
  };
  if (splat & splat_third)
    run(value(b));
  else
    run(array(b));
}

I32Status cast_f32_i32(int32_t* dst, const float* a, size_t n) {
  const auto cast = [](float x) -> Result {
    const bool fits = x >= -0x1p31f && x < 0x1p31f;
    const int32_t v = (int32_t)(fits ? x : 0.0f);
    return {fits ? v : INT32_MIN, fits ? 0u : 1u};
  };
  return map_status(dst, n, cast, array(a));
}

// A kernel of one operand from an expression in its element x.
#define SPYRE_CAST(name, to, from, expression)                  \
  void name(to* dst, const from* a, size_t n) {                 \
    map(dst, n, [](from x) { return (expression); }, array(a)); \
  }
SPYRE_CAST(cast_i32_f32, float, int32_t, (float)x)
SPYRE_CAST(cast_mask_f32, float, int32_t, x ? 1.0f : 0.0f)
SPYRE_CAST(cast_mask_i32, int32_t, int32_t, x & 1)
SPYRE_CAST(cast_f32_mask, int32_t, float, x != 0.0f ? -1 : 0)
SPYRE_CAST(cast_i32_mask, int32_t, int32_t, x != 0 ? -1 : 0)
SPYRE_CAST(widen_i16, int32_t, int16_t, x)
SPYRE_CAST(widen_i8, int32_t, int8_t, x)
SPYRE_CAST(narrow_i16, int16_t, int32_t, x)
SPYRE_CAST(narrow_i8, int8_t, int32_t, x)
void iota(int32_t* dst, int32_t first, int32_t step, size_t n) {
  for (size_t i = 0; i < n; ++i) dst[i] = (int32_t)((uint32_t)first + (uint32_t)i * (uint32_t)step);
}

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
SPYRE_INLINE uint32_t philox_word(uint32_t key, uint32_t offset, uint32_t index, int word) {
  uint32_t c0 = offset, c1 = 0, c2 = index, c3 = 0, k0 = key, k1 = 0;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}
void philox(int32_t* dst, const int32_t* seed, const int32_t* offset, const int32_t* index, int word, size_t n,
            Splat splat) {
  if (n == 0) return;
  if (splat == (splat_first | splat_second)) {
    const uint32_t s = (uint32_t)seed[0], o = (uint32_t)offset[0];
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) dst[i] = (int32_t)philox_word(s, o, (uint32_t)index[i], word);
    return;
  }
  const int32_t s0 = seed[0], o0 = offset[0], i0 = index[0];  // before dst, which may be their array, is written
  for (size_t i = 0; i < n; ++i) {
    const int32_t s = splat & splat_first ? s0 : seed[i], o = splat & splat_second ? o0 : offset[i];
    dst[i] = (int32_t)philox_word((uint32_t)s, (uint32_t)o, (uint32_t)(splat & splat_third ? i0 : index[i]), word);
  }
}

}  // namespace

const IntegerTable& integer_table() {
  static const IntegerTable table = {
      {neg, abs, square, sign, bit_not},
      {add, sub, mul, div, floor_div, remainder, min, max, bit_and, bit_or, bit_xor, shl, shr},
      {lt, le, gt, ge, eq, ne},
      select,
      cast_f32_i32,
      cast_i32_f32,
      cast_mask_f32,
      cast_mask_i32,
      cast_f32_mask,
      cast_i32_mask,
      widen_i16,
      widen_i8,
      narrow_i16,
      narrow_i8,
      iota,
      philox};
  return table;
}

}  // namespace spyre::card::host::simd::SPYRE_ISA
