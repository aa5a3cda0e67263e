// Reductions and scans over strips, in a fixed order.
//
// A strip's lanes are summed into 32 partial results (lane i into partial i mod 32), which are combined pairwise: the
// same on every instruction set. Longer reductions carry a state from strip to strip.
#pragma once

#include <cstddef>
#include <cstdint>

#include "card/host_vector.h"

namespace spyre::card::host {

float f32_sum(const float* a, size_t n);      ///< 0 for n = 0
float f32_prod(const float* a, size_t n);     ///< 1 for n = 0
float f32_max(const float* a, size_t n);      ///< -Inf for n = 0; NaN if a lane is NaN
float f32_min(const float* a, size_t n);      ///< +Inf for n = 0; NaN if a lane is NaN
int64_t i32_sum(const int32_t* a, size_t n);  ///< exact
/// Wrapped product; status says whether the exact one leaves int32.
int32_t i32_prod(const int32_t* a, size_t n, I32Status* status);
int32_t i32_max(const int32_t* a, size_t n);  ///< INT32_MIN for n = 0
int32_t i32_min(const int32_t* a, size_t n);  ///< INT32_MAX for n = 0
bool mask_any(const int32_t* mask, size_t n);
bool mask_all(const int32_t* mask, size_t n);

/// The best lane so far: NaN beats every number (as torch.argmax), ties keep the earlier one.
struct ArgState {
  float value = 0;
  int32_t index = -1;  ///< -1: nothing seen yet
};
struct ArgStateI32 {
  int32_t value = 0;
  int32_t index = -1;
};
/// Lane i has index first + i.
void f32_argmax(ArgState& state, const float* a, int32_t first, size_t n);
void f32_argmin(ArgState& state, const float* a, int32_t first, size_t n);
void i32_argmax(ArgStateI32& state, const int32_t* a, int32_t first, size_t n);
void i32_argmin(ArgStateI32& state, const int32_t* a, int32_t first, size_t n);

/// Mean, sum of squared differences from it, and number of lanes seen.
struct WelfordState {
  float mean = 0, m2 = 0, count = 0;
};
void welford(WelfordState& state, const float* a, size_t n);
/// Merges two disjoint parts.
WelfordState welford_merge(const WelfordState& a, const WelfordState& b);

/// max and sum of exp(x - max): the result is max + log(sum). Starts at -Inf and 0.
struct LogSumExpState {
  float max = -__builtin_inff();
  float sum = 0;
};
void logsumexp(LogSumExpState& state, const float* a, size_t n);
LogSumExpState logsumexp_merge(const LogSumExpState& a, const LogSumExpState& b);

// ---- down columns: one state per lane, one row added per call -------------------------------------------------------
// Sums, products, minima and maxima down columns are f32_binary and i32_binary of the state and the row.

void f32_argmax_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n);
void f32_argmin_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n);
/// count is the number of rows seen before this one, the same for all lanes.
void welford_rows(float* mean, float* m2, float count, const float* row, size_t n);
void logsumexp_rows(float* max, float* sum, const float* row, size_t n);

// ---- inclusive scans ------------------------------------------------------------------------------------------------

enum class ScanOp : uint8_t { sum, prod, max, min };
/// dst[i] = carry op a[0] op .. op a[i], in ascending order; carry becomes the last. Sums and products run in double
/// from the carry on. NaN as in the reductions.
void f32_scan(ScanOp op, float* dst, const float* a, float& carry, size_t n);
/// Wraps and reports whether an exact prefix leaves int32 (for prod: a running product).
I32Status i32_scan(ScanOp op, int32_t* dst, const int32_t* a, int32_t& carry, size_t n);

}  // namespace spyre::card::host
