// Chains of float32 operations on values that stay in registers.
#include "card/host_math_simd.h"
#include "card/host_vector_simd.h"

namespace spyre::card::host::simd::SPYRE_ISA {
namespace {

// Vectors that go through a chain together: enough to hide both latencies and the choice of the next operation, and
// few enough to stay in registers beside an elementary function's own.
constexpr int block = SPYRE_SIMD_BYTES == 64 ? 8 : 4;

template <int width, typename Fn>
SPYRE_INLINE void each(F32 (&v)[width], Fn fn) {
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) v[k] = fn(v[k]);
}
template <int width, typename Fn>
SPYRE_INLINE void with_all(F32 (&v)[width], const float* with, Fn fn) {
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) v[k] = fn(v[k], load<F32>(with + k * lanes));
}
template <int width, typename Fn>
SPYRE_INLINE void with_row(F32 (&v)[width], const float* with, Fn fn) {
  const F32 y = splat(*with);
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) v[k] = fn(v[k], y);
}

template <int width>
SPYRE_INLINE void round_all(F32 (&v)[width]) {
  F32 rounded[width];
  U32 odd = {};
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) rounded[k] = round_dl16_finite(v[k], odd);
  const bool finite = !any(odd >= odd_dl16);
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) v[k] = __builtin_expect(finite, 1) ? rounded[k] : round_dl16(v[k]);
}

// The links on `width` vectors. `at`: each link's operand in this row; lanes begin at `first`. Slots are in the
// first-level cache: beside eight running vectors an elementary function leaves no registers for them.
template <int width>
SPYRE_INLINE void run(float* to, const float* from, const F32LinkArgs* links, const float* const* at, int count,
                      size_t first) {
  const auto add = [](F32 x, F32 y) { return x + y; };
  const auto subtract = [](F32 x, F32 y) { return x - y; };
  const auto subtract_from = [](F32 x, F32 y) { return y - x; };
  const auto mul = [](F32 x, F32 y) { return x * y; };
  const auto least = [](F32 x, F32 y) { return min_f32(x, y); };
  const auto most = [](F32 x, F32 y) { return max_f32(x, y); };
  const auto quotient = [](F32 x, F32 y) { return x / y; };
  const auto inverse_quotient = [](F32 x, F32 y) { return y / x; };
  const auto second = [](F32, F32 y) { return y; };
  alignas(SPYRE_SIMD_BYTES) float slots[most_slots][width * lanes];
  F32 v[width];
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) v[k] = load<F32>(from + first + k * lanes);
  for (int i = 0; i < count; ++i) {
    const int slot = links[i].slot;
    const float* with = slot >= 0 ? slots[slot] : at[i];
    const float* all = slot >= 0 ? with : with + first;
    switch (links[i].op) {
      case F32Link::add_all:
        with_all(v, all, add);
        break;
      case F32Link::add_row:
        with_row(v, with, add);
        break;
      case F32Link::subtract_all:
        with_all(v, all, subtract);
        break;
      case F32Link::subtract_row:
        with_row(v, with, subtract);
        break;
      case F32Link::from_all:
        with_all(v, all, subtract_from);
        break;
      case F32Link::from_row:
        with_row(v, with, subtract_from);
        break;
      case F32Link::mul_all:
        with_all(v, all, mul);
        break;
      case F32Link::mul_row:
        with_row(v, with, mul);
        break;
      case F32Link::divide_all:
        with_all(v, all, quotient);
        break;
      case F32Link::divide_row:
        with_row(v, with, quotient);
        break;
      case F32Link::over_all:
        with_all(v, all, inverse_quotient);
        break;
      case F32Link::over_row:
        with_row(v, with, inverse_quotient);
        break;
      case F32Link::min_all:
        with_all(v, all, least);
        break;
      case F32Link::min_row:
        with_row(v, with, least);
        break;
      case F32Link::max_all:
        with_all(v, all, most);
        break;
      case F32Link::max_row:
        with_row(v, with, most);
        break;
      case F32Link::take_all:
        with_all(v, all, second);
        break;
      case F32Link::take_row:
        with_row(v, with, second);
        break;
      case F32Link::keep:
#pragma GCC unroll 8
        for (int k = 0; k < width; ++k) store(slots[slot] + k * lanes, v[k]);
        break;
      case F32Link::neg:
        each(v, [](F32 x) { return as_f32(as_i32(x) ^ (int32_t)0x80000000); });
        break;
      case F32Link::abs:
        each(v, [](F32 x) { return abs_f32(x); });
        break;
      case F32Link::square:
        each(v, [](F32 x) { return x * x; });
        break;
      case F32Link::rcp:
        each(v, [](F32 x) { return 1.0f / x; });
        break;
      case F32Link::exp:
        each(v, [](F32 x) { return exp_f32(x); });
        break;
      case F32Link::tanh:
        each(v, [](F32 x) { return tanh_f32(x); });
        break;
      case F32Link::erf:
        each(v, [](F32 x) { return erf_f32(x); });
        break;
      case F32Link::round_dl16:
        round_all(v);
        break;
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < width; ++k) store(to + first + k * lanes, v[k]);
}

// The last n (< lanes) lanes of a row, through padded copies.
void rest(float* to, const float* from, const F32LinkArgs* links, const float* const* at, int count, size_t first,
          size_t n) {
  float copies[most_links + 1][lanes];
  const float* copy_at[most_links];
  const auto pad = [&](float* copy, const float* values) {
    for (int i = 0; i < lanes; ++i) copy[i] = (size_t)i < n ? values[first + i] : 1.0f;
  };
  pad(copies[most_links], from);
  for (int k = 0; k < count; ++k) {
    copy_at[k] = at[k];
    if (!is_of_all(links[k].op) || links[k].slot >= 0) continue;
    pad(copies[k], at[k]);
    copy_at[k] = copies[k];
  }
  float out[lanes];
  run<1>(out, copies[most_links], links, copy_at, count, 0);
  for (size_t i = 0; i < n; ++i) to[first + i] = out[i];
}

void chain(float* to, const float* from, int64_t rows, size_t n, const F32LinkArgs* links, int count) {
  const float* at[most_links];
  for (int k = 0; k < count; ++k) at[k] = links[k].with;
  for (int64_t r = 0; r < rows; ++r, to += n, from += n) {
    size_t i = 0;
    for (; i + block * lanes <= n; i += block * lanes) run<block>(to, from, links, at, count, i);
    for (; i + lanes <= n; i += lanes) run<1>(to, from, links, at, count, i);
    if (i < n) rest(to, from, links, at, count, i, n - i);
    for (int k = 0; k < count; ++k) at[k] += links[k].row_stride;
  }
}

}  // namespace

const ChainTable& chain_table() {
  static const ChainTable table = {chain};
  return table;
}

}  // namespace spyre::card::host::simd::SPYRE_ISA
