// The matrix kernels of one instruction set. Private to the host kernels.
#pragma once

#include "base/isa.h"
#include "card/host_matmul.h"

namespace spyre::card::host {

struct MatmulTable {
  /// C[m, n] (+)= A[m, k] x panels, n a multiple of 16, k one block: every element's sum ascends in k from 0.
  /// panel_stride: elements from one panel to the next. next: the panels that will be wanted after these, brought into
  /// the cache meanwhile (any address will do).
  void (*block_f32)(int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* panels,
                    int64_t panel_stride, float* c, int64_t ldc, bool accumulate, const float* next);
  void (*block_i32)(int64_t m, int64_t n, int64_t k, const int32_t* a, int64_t lda, const int32_t* panels,
                    int64_t panel_stride, int32_t* c, int64_t ldc, bool accumulate, const int32_t* next);
  /// `rows` rows of `count` groups of 16 DL16 codes, row_stride codes apart, to floats: group g of row r goes to
  /// dst + r * dst_stride + g * group_stride.
  void (*unpack_dl16)(const uint16_t* src, int64_t row_stride, int64_t rows, int count, float* dst, int64_t dst_stride,
                      int64_t group_stride);
  /// Rows of `count` groups of 16 floats to DL16 codes, overflow to infinity; every fourth group starts a stick.
  void (*pack_dl16)(const float* src, int64_t src_stride, int64_t rows, int64_t count, uint16_t* dst,
                    int64_t dst_stride, int64_t stick_stride);
  /// 16 rows of k floats, `stride` apart, to one panel: panel[j][r] = src[r][j].
  void (*transpose_panel)(const float* src, int64_t stride, int64_t k, float* panel);
  /// c[64] = a[k] x one DL16 stick column, rows row_stride codes apart.
  void (*gemv_dl16)(const uint16_t* src, int64_t row_stride, int64_t k, const float* a, float* c);
};

SPYRE_SIMD_DECLARE(MatmulTable, matmul_table)

const MatmulTable& matmul_table(base::Isa isa);
const MatmulTable& matrices();  ///< the one for this machine

}  // namespace spyre::card::host
