#include "card/host_matmul.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"
#include "card/host_matmul_simd.h"

namespace spyre::card::host {

const MatmulTable& matmul_table(base::Isa isa) { return SPYRE_SIMD_TABLE(isa, matmul_table); }

const MatmulTable& matrices() {
  static const MatmulTable& table = matmul_table(base::host_isa());
  return table;
}

namespace {

// Scratch memory of a thread, kept between calls; one area per purpose, so that nested uses don't meet.
enum Area { area_rows, area_panels, area_corner, area_a, area_count };

class Scratch {
 public:
  float* floats(Area area, int64_t count) {
    Buffer& b = buffers_[area];
    if (b.size < count) {
      b.memory.reset(static_cast<float*>(::operator new(static_cast<size_t>(count) * 4, std::align_val_t(64))));
      b.size = count;
    }
    return b.memory.get();
  }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  struct Buffer {
    std::unique_ptr<float, Free> memory;
    int64_t size = 0;
  };
  Buffer buffers_[area_count];
};
thread_local Scratch scratch;

int64_t panels_of(int64_t n) { return (n + panel_width - 1) / panel_width; }

// Columns k0..k0+k-1 of rows first..first+n-1 of a transposed tile to panels: stick column by stick column, as memory
// has them, 16 rows at a time.
void pack_transposed(const Tile& tile, int64_t k0, int64_t k, int64_t first, int64_t n, float* panels,
                     int64_t panel_stride) {
  const int64_t per_stick = tile.per_stick(), stride = per_stick + panel_width;
  float* rows = scratch.floats(area_rows, panel_width * stride);
  for (int64_t at = k0, depth; at < k0 + k; at += depth, panels += depth * panel_width) {
    depth = std::min(per_stick - at % per_stick, k0 + k - at);
    const std::byte* next = tile.data + (at / per_stick + 1) * tile.stick_stride;
    for (int64_t p = 0; p < panels_of(n); ++p) {
      const int64_t count = std::min<int64_t>(panel_width, n - p * panel_width);
      const int64_t row = (first + p * panel_width) * tile.row_stride;
      Tile part = tile;
      part.data += row;
      float* panel = panels + p * panel_stride;
      if (at + depth < k0 + k) {  // the next column, at both ends
        for (int64_t r = 0; r < count; ++r)
          for (int64_t line : {0, 64}) __builtin_prefetch(next + row + r * tile.row_stride + line, 0, 2);
        for (int64_t i = depth; i < depth + per_stick; ++i) __builtin_prefetch(panel + i * panel_width, 1, 3);
      }
      unpack(part, count, at, depth, rows, stride);
      for (int64_t r = count; r < panel_width; ++r) std::fill_n(rows + r * stride, depth, 0.0f);
      matrices().transpose_panel(rows, stride, depth, panel);
    }
  }
}

// The stick columns of a DL16 tile straight into panels; `first` and the sticks' lanes are multiples of 16.
void pack_dl16(const Tile& tile, int64_t k, int64_t first, int64_t n, float* panels, int64_t panel_stride) {
  const int64_t per_stick = tile.per_stick();
  for (int64_t done = 0; done < n;) {
    const int64_t column = first + done, in_stick = column % per_stick;
    const int64_t count = std::min(per_stick - in_stick, n - done);
    const int groups = static_cast<int>(panels_of(count));
    const std::byte* src = tile.data + column / per_stick * tile.stick_stride + in_stick * 2;
    float* to = panels + done / panel_width * panel_stride;
    matrices().unpack_dl16(reinterpret_cast<const uint16_t*>(src), tile.row_stride / 2, k, groups, to, panel_width,
                           panel_stride);
    done += count;
  }
  // Lanes past n were read from the stick's rest, which carries no meaning.
  if (const int64_t used = n % panel_width) {
    float* last = panels + n / panel_width * panel_stride;
    for (int64_t i = 0; i < k; ++i) std::fill_n(last + i * panel_width + used, panel_width - used, 0.0f);
  }
}

// Any format and position, through plain rows.
template <typename T>
void pack_rows(const Tile& tile, int64_t k, int64_t first, int64_t n, T* panels, int64_t panel_stride) {
  const int64_t width = panels_of(n) * panel_width;
  T* row = reinterpret_cast<T*>(scratch.floats(area_rows, width));
  std::fill_n(row + n, width - n, T{0});
  Tile part = tile;
  for (int64_t i = 0; i < k; ++i, part.data += tile.row_stride) {
    unpack(part, 1, first, n, row, width);
    for (int64_t p = 0; p < width / panel_width; ++p)
      std::memcpy(panels + p * panel_stride + i * panel_width, row + p * panel_width, panel_width * sizeof(T));
  }
}

// A box of k rows (of B) starting at k0, into panels that are panel_stride elements apart.
void pack_box(const Tile& tile, bool transposed, int64_t k0, int64_t k, int64_t first, int64_t n, float* panels,
              int64_t panel_stride) {
  if (transposed) return pack_transposed(tile, k0, k, first, n, panels, panel_stride);
  Tile part = tile;
  part.data += k0 * tile.row_stride;
  if (tile.format == Format::dl16 && first % panel_width == 0 && tile.per_stick() % panel_width == 0)
    return pack_dl16(part, k, first, n, panels, panel_stride);
  pack_rows(part, k, first, n, panels, panel_stride);
}

template <typename T>
void zero_rows(int64_t m, int64_t n, T* c, int64_t ldc) {
  for (int64_t r = 0; r < m; ++r) std::fill_n(c + r * ldc, n, T{0});
}

// One block of k: whole panels into C, the last columns through a corner of whole panels.
template <typename T, typename Block>
void block(Block kernel, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* panels,
           int64_t panel_stride, T* c, int64_t ldc, bool accumulate, const T* next) {
  const int64_t whole = n / panel_width * panel_width;
  const T* last = panels + whole / panel_width * panel_stride;
  if (whole) kernel(m, whole, k, a, lda, panels, panel_stride, c, ldc, accumulate, whole == n ? next : last);
  if (whole == n) return;
  T* corner = reinterpret_cast<T*>(scratch.floats(area_corner, m * panel_width));
  const size_t bytes = static_cast<size_t>(n - whole) * sizeof(T);
  if (accumulate) {
    std::memset(corner, 0, static_cast<size_t>(m * panel_width) * sizeof(T));
    for (int64_t r = 0; r < m; ++r) std::memcpy(corner + r * panel_width, c + r * ldc + whole, bytes);
  }
  kernel(m, panel_width, k, a, lda, last, panel_stride, corner, panel_width, accumulate, next);
  for (int64_t r = 0; r < m; ++r) std::memcpy(c + r * ldc + whole, corner + r * panel_width, bytes);
}

// Columns k0..k0+k-1 of A; lda becomes the distance of their rows. Rows that lie a multiple of 2 KB apart fall into few
// sets of the first-level cache: they are copied when there are enough columns of B to pay for it.
const float* block_of_a(int64_t m, int64_t n, int64_t k0, int64_t k, const float* a, int64_t& lda) {
  if (lda == 0) {
    lda = k;
    return a + k0 * m;
  }
  a += k0;
  if (lda % 512 != 0 || m < 4 || n < 64) return a;
  float* copy = scratch.floats(area_a, m * k);
  for (int64_t r = 0; r < m; ++r) std::memcpy(copy + r * k, a + r * lda, static_cast<size_t>(k) * 4);
  lda = k;
  return copy;
}

}  // namespace

size_t panel_elements(int64_t k, int64_t n) { return static_cast<size_t>(panels_of(n) * panel_width * k); }

void pack_b(const Tile& tile, bool transposed, int64_t k, int64_t first, int64_t n, float* panels) {
  if (k > 0 && n > 0) pack_box(tile, transposed, 0, k, first, n, panels, k * panel_width);
}

void pack_b(const Tile& tile, bool transposed, int64_t k, int64_t first, int64_t n, int32_t* panels) {
  if (k <= 0 || n <= 0) return;
  if (!transposed) return pack_rows(tile, k, first, n, panels, k * panel_width);
  auto* row = reinterpret_cast<int32_t*>(scratch.floats(area_rows, k));
  std::memset(panels, 0, panel_elements(k, n) * 4);
  Tile part = tile;
  part.data += first * tile.row_stride;
  for (int64_t j = 0; j < n; ++j, part.data += tile.row_stride) {
    unpack(part, 1, 0, k, row, k);
    int32_t* to = panels + j / panel_width * k * panel_width + j % panel_width;
    for (int64_t i = 0; i < k; ++i) to[i * panel_width] = row[i];
  }
}

void pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, float* panels) {
  if (k <= 0 || n <= 0) return;
  Tile tile;
  tile.format = Format::f32;
  tile.data = reinterpret_cast<const std::byte*>(b);
  tile.row_stride = ldb * 4;
  pack_box(tile, transposed, 0, k, 0, n, panels, k * panel_width);
}

void pack_a(const Tile& tile, bool transposed, int64_t m, int64_t k, float* a) {
  for (int64_t block = 0; block * block_k < k; ++block) pack_a_block(tile, transposed, m, k, block, a);
}

void pack_a_block(const Tile& tile, bool transposed, int64_t m, int64_t k, int64_t block, float* a) {
  const int64_t k0 = block * block_k, depth = std::min(block_k, k - k0);
  if (m <= 0) return;
  a += k0 * m;
  if (!transposed) return unpack(tile, m, k0, depth, a, depth);
  float* lying = scratch.floats(area_a, block_k * m);
  Tile part = tile;
  part.data += k0 * tile.row_stride;
  unpack(part, depth, 0, m, lying, m);
  transpose(4, lying, m * 4, a, depth * 4, depth, m);
}

void matmul(const MatmulArgs& args) {
  if (args.m <= 0 || args.n <= 0) return;
  if (args.k <= 0) {
    if (!args.accumulate) zero_rows(args.m, args.n, args.c, args.ldc);
    return;
  }
  for (int64_t k0 = 0; k0 < args.k; k0 += block_k) {
    const int64_t k = std::min(block_k, args.k - k0);
    int64_t lda = args.lda;
    const float* a = block_of_a(args.m, args.n, k0, k, args.a, lda);
    const float* panels = args.panels + k0 * panel_width;
    block(matrices().block_f32, args.m, args.n, k, a, lda, panels, args.k * panel_width, args.c, args.ldc,
          args.accumulate || k0 > 0, k0 + k < args.k ? panels + k * panel_width : panels);
  }
}

void matmul(const MatmulI32Args& args) {
  if (args.m <= 0 || args.n <= 0) return;
  if (args.k <= 0) {
    if (!args.accumulate) zero_rows(args.m, args.n, args.c, args.ldc);
    return;
  }
  for (int64_t k0 = 0; k0 < args.k; k0 += block_k) {
    const int32_t* panels = args.panels + k0 * panel_width;
    block(matrices().block_i32, args.m, args.n, std::min(block_k, args.k - k0), args.a + k0, args.lda, panels,
          args.k * panel_width, args.c, args.ldc, args.accumulate || k0 > 0, panels);
  }
}

void matmul(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const Tile& b, bool transposed, float* c,
            int64_t ldc, bool accumulate) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0) {
    if (!accumulate) zero_rows(m, n, c, ldc);
    return;
  }
  if (m == 1 && !transposed && b.format == Format::dl16 && b.per_stick() == base::elements_per_stick(b.format))
    return gemv(n, k, a, b, c, accumulate);
  // Columns per round: panels of one block of k that stay in the second-level cache.
  constexpr int64_t columns = 256;
  for (int64_t k0 = 0; k0 < k; k0 += block_k) {
    const int64_t depth = std::min(block_k, k - k0);
    int64_t rows_apart = lda;
    const float* rows = block_of_a(m, n, k0, depth, a, rows_apart);
    for (int64_t n0 = 0; n0 < n; n0 += columns) {
      const int64_t width = std::min(columns, n - n0);
      float* panels = scratch.floats(area_panels, columns * block_k);
      pack_box(b, transposed, k0, depth, n0, width, panels, depth * panel_width);
      block(matrices().block_f32, m, width, depth, rows, rows_apart, panels, depth * panel_width, c + n0, ldc,
            accumulate || k0 > 0, panels);
    }
  }
}

void gemv(int64_t n, int64_t k, const float* a, const Tile& b, float* c, bool accumulate) {
  if (b.format != Format::dl16) fail(Fault::program, "gemv: B is {}, expected dl16", base::format_name(b.format));
  constexpr int64_t per_stick = base::elements_per_stick(Format::dl16);
  for (int64_t n0 = 0; n0 < n; n0 += per_stick) {
    float sum[per_stick];
    matrices().gemv_dl16(reinterpret_cast<const uint16_t*>(b.data + n0 / per_stick * b.stick_stride), b.row_stride / 2,
                         std::max<int64_t>(k, 0), a, sum);
    const int64_t count = std::min(per_stick, n - n0);
    for (int64_t j = 0; j < count; ++j) c[n0 + j] = accumulate ? c[n0 + j] + sum[j] : sum[j];
  }
}

}  // namespace spyre::card::host
