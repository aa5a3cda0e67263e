// Matrix products: float32 accumulation in ascending k for each element, and wrapping int32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "card/host_tile.h"

namespace spyre::card::host {

constexpr int panel_width = 16;
/// The sum over k is taken in blocks: long enough to hide what a block costs, short enough for the caches.
constexpr int64_t block_k = 384;

/// Elements of the packed form of B[K, N]: [ceil(N / 16)][K][16], columns past N zero.
size_t panel_elements(int64_t k, int64_t n);

/// Packs B[k, n] for matmul: columns first..first+n-1 of rows 0..k-1 of the tile. transposed: the tile holds B^T[n, k],
/// rows first..first+n-1 and columns 0..k-1 of it. Throws Error(program) for an integer format (the int32 form: for a
/// real one).
void pack_b(const Tile& tile, bool transposed, int64_t k, int64_t first, int64_t n, float* panels);
void pack_b(const Tile& tile, bool transposed, int64_t k, int64_t first, int64_t n, int32_t* panels);
/// The same from plain float rows, ldb elements apart.
void pack_b(const float* b, int64_t ldb, bool transposed, int64_t k, int64_t n, float* panels);

/// Rows 0..m-1, columns 0..k-1 of a tile (transposed: of the transposed tile) as A is best for matmul, block of k after
/// block of k: [ceil(k / block_k)][m][block_k], the last block narrower. Rows that follow each other stream through the
/// caches.
void pack_a(const Tile& tile, bool transposed, int64_t m, int64_t k, float* a);
/// One such block of k of it; `a` is where the whole begins.
void pack_a_block(const Tile& tile, bool transposed, int64_t m, int64_t k, int64_t block, float* a);

/// C[m, n] (+)= A[m, k] x B: lda and ldc in elements. C holds 0 afterwards when k is 0 and it is not accumulated.
struct MatmulArgs {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t lda = 0;                ///< 0: as pack_a makes it
  const float* panels = nullptr;  ///< of pack_b for the same k and n
  float* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
};
/// The sum over k is taken in blocks of block_k, each in ascending order from 0, and the blocks are added in order to
/// C.
void matmul(const MatmulArgs& args);

struct MatmulI32Args {
  int64_t m = 0, n = 0, k = 0;
  const int32_t* a = nullptr;
  int64_t lda = 0;
  const int32_t* panels = nullptr;
  int32_t* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
};
/// Wraps around, as int32 and the PT's int8 products do.
void matmul(const MatmulI32Args& args);

/// C[m, n] (+)= A[m, k] x tile, lda as in MatmulArgs, for a B that is used once: packs it piecewise into the calling
/// thread's scratch memory, or for m = 1 and DL16 stick columns multiplies the codes as they lie. `transposed` as in
/// pack_b.
void matmul(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const Tile& b, bool transposed, float* c,
            int64_t ldc, bool accumulate);

/// One row: c[n] (+)= a[k] x B[k, n], B a DL16 tile of rows along n (not transposed). Reads B's sticks once, in four
/// streams along k; the order of the additions is fixed by k alone. Throws Error(program) for another format.
void gemv(int64_t n, int64_t k, const float* a, const Tile& b, float* c, bool accumulate);

}  // namespace spyre::card::host
