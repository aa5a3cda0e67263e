// Reductions of a strip. Sums keep 32 partial results, whatever the vector width, so that all instruction sets add in
// one order.
#include "card/host_reduce_simd.h"

#include "card/host_math_simd.h"

namespace spyre::card::host::simd::SPYRE_ISA {
namespace {

constexpr int partials = 32;
constexpr int vectors = partials / lanes;

SPYRE_INLINE I32 lane_numbers() {
  I32 v;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) v[i] = i;
  return v;
}

// Folds lane i into partial i mod 32, then the partials pairwise. `neutral` fills the last, incomplete row.
template <typename Term, typename Fold>
SPYRE_INLINE float fold(const float* a, size_t n, float neutral, Term term, Fold combine) {
  F32 acc[vectors];
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) acc[v] = splat(neutral);
  size_t i = 0;
  for (; i + partials <= n; i += partials) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) acc[v] = combine(acc[v], term(load<F32>(a + i + v * lanes)));
  }
  if (i < n) {
    const int32_t count = (int32_t)(n - i);
    float rest[partials] = {};
    for (int32_t j = 0; j < count; ++j) rest[j] = a[i + j];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const F32 grown = combine(acc[v], term(load<F32>(rest + v * lanes)));
      acc[v] = lane_numbers() + v * lanes < count ? grown : acc[v];
    }
  }
  // Partial j with j + 16, then j + 8, ...: first whole vectors, then the halves of one.
#pragma GCC unroll 8
  for (int half = vectors / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int v = 0; v < half; ++v) acc[v] = combine(acc[v], acc[v + half]);
#pragma GCC unroll 8
  for (int half = lanes / 2; half > 0; half /= 2)
    acc[0] = combine(acc[0], __builtin_shuffle(acc[0], (lane_numbers() + half) & (lanes - 1)));
  return acc[0][0];
}

SPYRE_INLINE F32 same(F32 x) { return x; }
float sum(const float* a, size_t n) {
  return fold(a, n, 0.0f, same, [](F32 x, F32 y) { return x + y; });
}
float prod(const float* a, size_t n) {
  return fold(a, n, 1.0f, same, [](F32 x, F32 y) { return x * y; });
}
// The extreme of what isn't NaN, and NaN when there was one: their bits without the sign are above infinity's.
template <typename Fold>
SPYRE_INLINE float extreme(const float* a, size_t n, float neutral, Fold combine) {
  I32 largest = {};
  const auto look = [&](F32 x) {
    const I32 magnitude = as_i32(x) & 0x7FFFFFFF;
    largest = magnitude > largest ? magnitude : largest;
    return x;
  };
  const float r = fold(a, n, neutral, look, [&](F32 acc, F32 x) { return combine(x, acc); });
  return any(largest > 0x7F800000) ? __builtin_nanf("") : r;
}
float max(const float* a, size_t n) {
  return extreme(a, n, -__builtin_inff(), [](F32 x, F32 y) { return larger(x, y); });
}
float min(const float* a, size_t n) {
  return extreme(a, n, __builtin_inff(), [](F32 x, F32 y) { return smaller(x, y); });
}
float sum_squares(const float* a, float mean, size_t n) {
  const F32 m = splat(mean);
  return fold(
      a, n, 0.0f,
      [m](F32 x) {
        const F32 d = x - m;
        return d * d;
      },
      [](F32 x, F32 y) { return x + y; });
}
float sum_exp(const float* a, float shift, size_t n) {
  const F32 s = splat(shift);
  return fold(a, n, 0.0f, [s](F32 x) { return exp_f32(x - s); }, [](F32 x, F32 y) { return x + y; });
}

int64_t sum_i32(const int32_t* a, size_t n) {
  int64_t total = 0;
  for (size_t i = 0; i < n; ++i) total += a[i];
  return total;
}
int32_t max_i32(const int32_t* a, size_t n) {
  int32_t r = INT32_MIN;
  for (size_t i = 0; i < n; ++i) r = a[i] > r ? a[i] : r;
  return r;
}
int32_t min_i32(const int32_t* a, size_t n) {
  int32_t r = INT32_MAX;
  for (size_t i = 0; i < n; ++i) r = a[i] < r ? a[i] : r;
  return r;
}
int32_t or_i32(const int32_t* a, size_t n) {
  int32_t r = 0;
  for (size_t i = 0; i < n; ++i) r |= a[i];
  return r;
}
int32_t and_i32(const int32_t* a, size_t n) {
  int32_t r = -1;
  for (size_t i = 0; i < n; ++i) r &= a[i];
  return r;
}

template <typename T, typename Test>
SPYRE_INLINE size_t first_where(const T* a, size_t n, Test test) {
  constexpr size_t block = 64;
  size_t i = 0;
  for (; i + block <= n; i += block) {
    int found = 0;
    for (size_t j = 0; j < block; ++j) found |= test(a[i + j]);
    if (found) break;
  }
  for (; i < n; ++i)
    if (test(a[i])) break;
  return i;
}
size_t find(const int32_t* a, int32_t value, size_t n) {
  return first_where(a, n, [value](int32_t x) { return x == value; });
}
size_t find_f32(const float* a, float value, size_t n) {
  return first_where(a, n, [value](float x) { return x == value; });
}
size_t find_nan(const float* a, size_t n) {
  return first_where(a, n, [](float x) { return x != x; });
}

// Whole vectors of `count` arrays in lock step; the rest through padded copies.
template <typename Body>
SPYRE_INLINE void rows(float* s, void* t, const float* row, size_t n, Body body) {
  auto* t32 = static_cast<float*>(t);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(s + i, t32 + i, row + i);
  if (i < n) {
    float a[lanes] = {}, b[lanes] = {}, c[lanes] = {};
    __builtin_memcpy(a, s + i, (n - i) * 4);
    __builtin_memcpy(b, t32 + i, (n - i) * 4);
    __builtin_memcpy(c, row + i, (n - i) * 4);
    body(a, b, c);
    __builtin_memcpy(s + i, a, (n - i) * 4);
    __builtin_memcpy(t32 + i, b, (n - i) * 4);
  }
}

void welford_rows(float* mean, float* m2, float reciprocal, const float* row, size_t n) {
  rows(mean, m2, row, n, [reciprocal](float* s, float* t, const float* r) {
    const F32 x = load<F32>(r), m = load<F32>(s), d = x - m, next = m + d * reciprocal;
    store(s, next);
    store(t, load<F32>(t) + d * (x - next));
  });
}

void logsumexp_rows(float* max, float* sum, const float* row, size_t n) {
  rows(max, sum, row, n, [](float* s, float* t, const float* r) {
    const F32 x = load<F32>(r), m = load<F32>(s), total = load<F32>(t), next = max_f32(m, x);
    // Where the maximum is infinite a difference of equal infinities is taken as zero.
    const F32 down = m == next ? splat(0.0f) : m - next, up = x == next ? splat(0.0f) : x - next;
    const F32 grown = total * exp_f32(down) + exp_f32(up);
    const F32 kept = next == -__builtin_inff() ? splat(0.0f) : grown;
    store(s, next);
    store(t, kept);
  });
}

template <typename Better>
SPYRE_INLINE void arg_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n, Better better) {
  rows(value, index, row, n, [=](float* s, float* t, const float* r) {
    const F32 x = load<F32>(r), v = load<F32>(s);
    const I32 i = load<I32>(t);
    const I32 take = (i < 0) | ((v == v) & ((I32)(x != x) | (I32)better(x, v)));
    store(s, take ? x : v);
    store(t, take ? splat(row_index) : i);
  });
}
void argmax_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n) {
  arg_rows(value, index, row, row_index, n, [](F32 x, F32 v) { return x > v; });
}
void argmin_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n) {
  arg_rows(value, index, row, row_index, n, [](F32 x, F32 v) { return x < v; });
}

}  // namespace

const ReduceTable& reduce_table() {
  static const ReduceTable table = {
      sum,    prod,    max,  min,      sum_squares, sum_exp,      sum_i32,        max_i32,     min_i32,
      or_i32, and_i32, find, find_f32, find_nan,    welford_rows, logsumexp_rows, argmax_rows, argmin_rows};
  return table;
}

}  // namespace spyre::card::host::simd::SPYRE_ISA
