// The reduction kernels of one instruction set. Private to the host kernels.
#pragma once

#include "base/isa.h"
#include "card/host_reduce.h"

namespace spyre::card::host {

struct ReduceTable {
  float (*sum)(const float* a, size_t n);
  float (*prod)(const float* a, size_t n);
  float (*max)(const float* a, size_t n);
  float (*min)(const float* a, size_t n);
  float (*sum_squares)(const float* a, float mean, size_t n);  ///< of a[i] - mean
  float (*sum_exp)(const float* a, float shift, size_t n);     ///< of exp(a[i] - shift)
  int64_t (*sum_i32)(const int32_t* a, size_t n);
  int32_t (*max_i32)(const int32_t* a, size_t n);
  int32_t (*min_i32)(const int32_t* a, size_t n);
  int32_t (*or_i32)(const int32_t* a, size_t n);
  int32_t (*and_i32)(const int32_t* a, size_t n);
  /// First lane that equals value, or n.
  size_t (*find)(const int32_t* a, int32_t value, size_t n);
  size_t (*find_f32)(const float* a, float value, size_t n);
  size_t (*find_nan)(const float* a, size_t n);
  void (*welford_rows)(float* mean, float* m2, float reciprocal, const float* row, size_t n);
  void (*logsumexp_rows)(float* max, float* sum, const float* row, size_t n);
  void (*argmax_rows)(float* value, int32_t* index, const float* row, int32_t row_index, size_t n);
  void (*argmin_rows)(float* value, int32_t* index, const float* row, int32_t row_index, size_t n);
};

SPYRE_SIMD_DECLARE(ReduceTable, reduce_table)

const ReduceTable& reduce_table(base::Isa isa);

}  // namespace spyre::card::host
