// Matrix micro-kernels. Their accumulators must stay in registers: every loop over them is unrolled in full, and
// nothing in their set-up depends on a run-time condition.
#include "card/host_matmul_simd.h"

#include "card/host_math_simd.h"

namespace spyre::card::host::simd::SPYRE_ISA {
namespace {

constexpr int panel_vectors = panel_width / lanes;  // 1, 2 or 4

// Rows and panels of a micro-kernel, by the registers there are: 32 of 64 bytes, 16 of 32 or of 16.
#if SPYRE_SIMD_BYTES == 64
constexpr int tile_rows = 12, tile_panels = 2;
#elif SPYRE_SIMD_BYTES == 32
constexpr int tile_rows = 6, tile_panels = 1;
#else
constexpr int tile_rows = 2, tile_panels = 1;
#endif

// What will be needed next: a micro-kernel brings its share of the panels, and the rows after its own, into the
// second-level cache. Large decoded operands lie in the outer cache, whose latency costs a third of the speed when
// nothing hides it.
struct Ahead {
  const char* panels;
  const char* rows;
  int64_t panel_step, row_step;  // bytes per k; of each panel, of all rows
};

template <typename V, typename T, int rows, int panels>
SPYRE_INLINE void micro(int64_t k, const T* a, int64_t lda, const T* b, int64_t panel_stride, T* c, int64_t ldc,
                        bool accumulate, Ahead ahead) {
  constexpr int width = panels * panel_vectors;
  V sum[rows][width];
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < width; ++v) sum[r][v] = V{};
  // Three rows to a pointer: +0, +lda and +2 lda are one addressing form each. A pointer or an offset a row is more
  // than there are registers.
  constexpr int bases = (rows + 2) / 3;
  const T* base[bases];
#pragma GCC unroll 16
  for (int q = 0; q < bases; ++q) base[q] = a + 3 * q * lda;
  const int64_t next_stride = panel_stride * (int64_t)sizeof(T);
  for (int64_t i = 0; i < k; ++i, b += panel_width) {
#pragma GCC unroll 16
    for (int p = 0; p < panels; ++p) __builtin_prefetch(ahead.panels + p * next_stride, 0, 2);
    __builtin_prefetch(ahead.rows, 0, 2);
    ahead.panels += ahead.panel_step;
    ahead.rows += ahead.row_step;
    V x[width];
#pragma GCC unroll 16
    for (int v = 0; v < width; ++v)
      x[v] = load<V>(b + (v / panel_vectors) * panel_stride + (v % panel_vectors) * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V y = base[r / 3][r % 3 * lda] - V{};
#pragma GCC unroll 16
      for (int v = 0; v < width; ++v) sum[r][v] += y * x[v];
    }
#pragma GCC unroll 16
    for (int q = 0; q < bases; ++q) {
      ++base[q];
      asm("" : "+r"(base[q]));  // keeps the compiler from going back to an offset a row
    }
  }
  if (accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < width; ++v) sum[r][v] += load<V>(c + r * ldc + v * lanes);
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < width; ++v) store(c + r * ldc + v * lanes, sum[r][v]);
}

// An Ahead on the stack would be read with one wide load, which waits for all stores before it: the last call's sums.
template <typename V, typename T, int panels, int rows>
__attribute__((noinline)) void micro_rows(int64_t k, const T* a, int64_t lda, const T* b, int64_t panel_stride, T* c,
                                          int64_t ldc, bool accumulate, const char* ahead_panels,
                                          const char* ahead_rows, int64_t ahead_panel_step, int64_t ahead_row_step) {
  micro<V, T, rows, panels>(k, a, lda, b, panel_stride, c, ldc, accumulate,
                            {ahead_panels, ahead_rows, ahead_panel_step, ahead_row_step});
}

template <typename T>
using Micro = void (*)(int64_t k, const T* a, int64_t lda, const T* b, int64_t panel_stride, T* c, int64_t ldc,
                       bool accumulate, const char* ahead_panels, const char* ahead_rows, int64_t ahead_panel_step,
                       int64_t ahead_row_step);

template <typename V, typename T, int panels>
SPYRE_INLINE Micro<T> micro_of(int rows) {
  static constexpr Micro<T> kernels[] = {
      micro_rows<V, T, panels, 1>,  micro_rows<V, T, panels, 2>,
#if SPYRE_SIMD_BYTES >= 32
      micro_rows<V, T, panels, 3>,  micro_rows<V, T, panels, 4>,  micro_rows<V, T, panels, 5>,
      micro_rows<V, T, panels, 6>,
#endif
#if SPYRE_SIMD_BYTES >= 64
      micro_rows<V, T, panels, 7>,  micro_rows<V, T, panels, 8>,  micro_rows<V, T, panels, 9>,
      micro_rows<V, T, panels, 10>, micro_rows<V, T, panels, 11>, micro_rows<V, T, panels, 12>,
#endif
  };
  return kernels[rows - 1];
}

// All rows against `panels` panels; rows are split evenly, so that no block is much smaller than the others.
template <typename V, typename T, int panels>
SPYRE_INLINE void all_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* b, int64_t panel_stride, T* c,
                           int64_t ldc, bool accumulate, const T* next) {
  constexpr int64_t bytes = sizeof(T), line = panel_width * bytes;
  const int64_t blocks = (m + tile_rows - 1) / tile_rows, step = (line + blocks - 1) / blocks;
  Ahead ahead = {(const char*)next, (const char*)a, step, 0};
  int64_t row = 0;
  for (int64_t i = 0; i < blocks; ++i, ahead.panels += step * k) {
    const int64_t rows = m / blocks + (i < m % blocks);
    if (lda == k) {  // rows that follow each other
      ahead.rows = (const char*)(a + (row + rows) * lda);
      ahead.row_step = rows * bytes;
    }
    micro_of<V, T, panels>((int)rows)(k, a + row * lda, lda, b, panel_stride, c + row * ldc, ldc, accumulate,
                                      ahead.panels, ahead.rows, ahead.panel_step, ahead.row_step);
    row += rows;
  }
}

template <typename V, typename T>
SPYRE_INLINE void block(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* panels, int64_t panel_stride,
                        T* c, int64_t ldc, bool accumulate, const T* next) {
  int64_t p = 0;
  const int64_t count = n / panel_width;
  const auto after = [&](int64_t q) { return q < count ? panels + q * panel_stride : next; };
  for (; p + tile_panels <= count; p += tile_panels)
    all_rows<V, T, tile_panels>(m, k, a, lda, panels + p * panel_stride, panel_stride, c + p * panel_width, ldc,
                                accumulate, after(p + tile_panels));
  for (; p < count; ++p)
    all_rows<V, T, 1>(m, k, a, lda, panels + p * panel_stride, panel_stride, c + p * panel_width, ldc, accumulate,
                      after(p + 1));
}

void block_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* panels, int64_t panel_stride,
               float* c, int64_t ldc, bool accumulate, const float* next) {
  block<F32, float>(m, n, k, a, lda, panels, panel_stride, c, ldc, accumulate, next);
}

// Unsigned: wrapping around is what is wanted, and is undefined for signed elements.
void block_i32(int64_t m, int64_t n, int64_t k, const int32_t* a, int64_t lda, const int32_t* panels,
               int64_t panel_stride, int32_t* c, int64_t ldc, bool accumulate, const int32_t* next) {
  block<U32, uint32_t>(m, n, k, (const uint32_t*)a, lda, (const uint32_t*)panels, panel_stride, (uint32_t*)c, ldc,
                       accumulate, (const uint32_t*)next);
}

// Whether codes are finite is asked once for many of them: of their largest magnitudes.
SPYRE_INLINE I16 take_magnitude(I16 code, I16 largest) {
  const I16 magnitude = code & 0x7FFF;
  return magnitude > largest ? magnitude : largest;
}
SPYRE_INLINE bool special(I16 largest) { return any(widen(largest) == 0x7FFF); }

// False when `finite` met a code that it takes for a wrong number.
template <bool finite, typename Count>
SPYRE_INLINE bool unpack_groups(const uint16_t* src, int64_t row_stride, int64_t rows, Count count, float* dst,
                                int64_t dst_stride, int64_t group_stride) {
  // Sources come from the outer cache or memory, destinations were last used long ago: both are asked for early.
  constexpr int64_t early = 48, ready = 16;
  const float* const following = dst + count() * group_stride;
  I16 largest = {};
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* from = src + r * row_stride;
    float* to = dst + r * dst_stride;
    __builtin_prefetch(from + early * row_stride, 0, 2);
    __builtin_prefetch(from + early * row_stride + 32, 0, 2);
    const float* const soon = r + ready < rows ? to + ready * dst_stride : following + (r + ready - rows) * dst_stride;
    for (int g = 0; g < count(); ++g) {
      __builtin_prefetch(soon + g * group_stride, 1, 3);
#pragma GCC unroll 4
      for (int v = 0; v < panel_vectors; ++v) {
        const I16 code = load<I16>(from + g * panel_width + v * lanes);
        if (finite) largest = take_magnitude(code, largest);
        store(to + g * group_stride + v * lanes, finite ? decode_dl16_finite(widen(code)) : decode_dl16(widen(code)));
      }
    }
  }
  return !special(largest);
}
void unpack_dl16(const uint16_t* src, int64_t row_stride, int64_t rows, int count, float* dst, int64_t dst_stride,
                 int64_t group_stride) {
  const auto whole = [] { return 4; };  // a stick
  const auto part = [count] { return count; };
  const bool done = count == 4 ? unpack_groups<true>(src, row_stride, rows, whole, dst, dst_stride, group_stride)
                               : unpack_groups<true>(src, row_stride, rows, part, dst, dst_stride, group_stride);
  if (!done) unpack_groups<false>(src, row_stride, rows, part, dst, dst_stride, group_stride);
}

void pack_dl16(const float* src, int64_t src_stride, int64_t rows, int64_t count, uint16_t* dst, int64_t dst_stride,
               int64_t stick_stride) {
  constexpr int64_t soon = 6;
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = src + r * src_stride;
    uint16_t* to = dst + r * dst_stride;
    int64_t g = 0;
    for (; g + 4 <= count; g += 4, from += 4 * panel_width, to += stick_stride) {
      __builtin_prefetch(to + soon * dst_stride, 1, 3);
      __builtin_prefetch(to + soon * dst_stride + 32, 1, 3);
      encode_dl16_block<4 * panel_vectors>(from, to, 0x7FFF);
    }
    for (; g < count; ++g, from += panel_width, to += panel_width) encode_dl16_block<panel_vectors>(from, to, 0x7FFF);
  }
}

// One pass of a perfect shuffle: after log2(lanes) of them rows and columns have changed places.
SPYRE_INLINE void zip(const F32 (&in)[lanes], F32 (&out)[lanes]) {
  I32 low, high;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    low[i] = i / 2 + (i % 2) * lanes;
    high[i] = low[i] + lanes / 2;
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes / 2; ++i) {
    out[2 * i] = __builtin_shuffle(in[i], in[i + lanes / 2], low);
    out[2 * i + 1] = __builtin_shuffle(in[i], in[i + lanes / 2], high);
  }
}
SPYRE_INLINE void transpose_square(F32 (&rows)[lanes]) {
  F32 other[lanes];
  zip(rows, other);
  zip(other, rows);
#if SPYRE_SIMD_BYTES >= 32
  zip(rows, other);
#if SPYRE_SIMD_BYTES >= 64
  zip(other, rows);
#else
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) rows[i] = other[i];
#endif
#endif
}

void transpose_panel(const float* src, int64_t stride, int64_t k, float* panel) {
  int64_t i = 0;
  for (; i + lanes <= k; i += lanes)
    for (int v = 0; v < panel_vectors; ++v) {
      F32 rows[lanes];
#pragma GCC unroll 16
      for (int r = 0; r < lanes; ++r) rows[r] = load<F32>(src + (v * lanes + r) * stride + i);
      transpose_square(rows);
#pragma GCC unroll 16
      for (int r = 0; r < lanes; ++r) store(panel + (i + r) * panel_width + v * lanes, rows[r]);
    }
  for (; i < k; ++i)
    for (int r = 0; r < panel_width; ++r) panel[i * panel_width + r] = src[r * stride + i];
}

constexpr int column = 64;  // codes in a stick
constexpr int column_vectors = column / lanes;

// As unpack_groups.
template <bool finite>
SPYRE_INLINE bool gemv_rows(const uint16_t* src, int64_t row_stride, int64_t k, const float* a, float* c) {
  F32 sum[column_vectors];
  I16 largest = {};
#pragma GCC unroll 16
  for (int v = 0; v < column_vectors; ++v) sum[v] = F32{};
  const auto row = [&](int64_t i) __attribute__((always_inline)) {
    const F32 x = splat(a[i]);
    const uint16_t* p = src + i * row_stride;
#pragma GCC unroll 16
    for (int v = 0; v < column_vectors; ++v) {
      const I16 code = load<I16>(p + v * lanes);
      if (finite) largest = take_magnitude(code, largest);
      sum[v] += x * (finite ? decode_dl16_finite(widen(code)) : decode_dl16(widen(code)));
    }
  };
  const int64_t quarter = k / 4;
  for (int64_t i = 0; i < quarter; ++i) {
    row(i);
    row(i + quarter);
    row(i + 2 * quarter);
    row(i + 3 * quarter);
  }
  for (int64_t i = 4 * quarter; i < k; ++i) row(i);
#pragma GCC unroll 16
  for (int v = 0; v < column_vectors; ++v) store(c + v * lanes, sum[v]);
  return !special(largest);
}

void gemv_dl16(const uint16_t* src, int64_t row_stride, int64_t k, const float* a, float* c) {
  if (!gemv_rows<true>(src, row_stride, k, a, c)) gemv_rows<false>(src, row_stride, k, a, c);
}

}  // namespace

const MatmulTable& matmul_table() {
  static const MatmulTable table = {block_f32, block_i32, unpack_dl16, pack_dl16, transpose_panel, gemv_dl16};
  return table;
}

}  // namespace spyre::card::host::simd::SPYRE_ISA
