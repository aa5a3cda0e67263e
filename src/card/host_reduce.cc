#include "card/host_reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "card/host_reduce_simd.h"

namespace spyre::card::host {

const ReduceTable& reduce_table(base::Isa isa) { return SPYRE_SIMD_TABLE(isa, reduce_table); }

namespace {

const ReduceTable& reductions() {
  static const ReduceTable& table = reduce_table(base::host_isa());
  return table;
}

constexpr float infinity = std::numeric_limits<float>::infinity();

// One strip's best lane against the state: NaN beats numbers, equals keep the state.
void f32_arg(ArgState& state, const float* a, int32_t first, size_t n, bool largest) {
  if (n == 0 || (state.index >= 0 && std::isnan(state.value))) return;
  const float best = largest ? reductions().max(a, n) : reductions().min(a, n);
  const bool better = state.index < 0 || std::isnan(best) || (largest ? best > state.value : best < state.value);
  if (!better) return;
  state.value = best;
  state.index =
      first + static_cast<int32_t>(std::isnan(best) ? reductions().find_nan(a, n) : reductions().find_f32(a, best, n));
}

void i32_arg(ArgStateI32& state, const int32_t* a, int32_t first, size_t n, bool largest) {
  if (n == 0) return;
  const int32_t best = largest ? reductions().max_i32(a, n) : reductions().min_i32(a, n);
  if (state.index >= 0 && !(largest ? best > state.value : best < state.value)) return;
  state.value = best;
  state.index = first + static_cast<int32_t>(reductions().find(a, best, n));
}

float max_nan(float a, float b) { return std::isnan(a) ? a : a > b ? a : b; }
float min_nan(float a, float b) { return std::isnan(a) ? a : a < b ? a : b; }

// exp(a - b) where equal infinities differ by nothing.
float exp_difference(float a, float b) { return a == b ? 1.0f : std::exp(a - b); }

}  // namespace

float f32_sum(const float* a, size_t n) { return reductions().sum(a, n); }
float f32_prod(const float* a, size_t n) { return reductions().prod(a, n); }
float f32_max(const float* a, size_t n) { return reductions().max(a, n); }
float f32_min(const float* a, size_t n) { return reductions().min(a, n); }
int64_t i32_sum(const int32_t* a, size_t n) { return reductions().sum_i32(a, n); }
int32_t i32_max(const int32_t* a, size_t n) { return reductions().max_i32(a, n); }
int32_t i32_min(const int32_t* a, size_t n) { return reductions().min_i32(a, n); }
bool mask_any(const int32_t* mask, size_t n) { return reductions().or_i32(mask, n) != 0; }
bool mask_all(const int32_t* mask, size_t n) { return reductions().and_i32(mask, n) == -1; }

int32_t i32_prod(const int32_t* a, size_t n, I32Status* status) {
  uint32_t wrapped = 1;
  uint64_t magnitude = 1;  // of the product of the factors other than zero, held at 2^32 once it is past that
  bool negative = false, zero = false;
  for (size_t i = 0; i < n; ++i) {
    wrapped *= static_cast<uint32_t>(a[i]);
    zero |= a[i] == 0;
    negative ^= a[i] < 0;
    if (a[i] != 0)
      magnitude = std::min(magnitude * static_cast<uint64_t>(std::abs(static_cast<int64_t>(a[i]))), uint64_t{1} << 32);
  }
  const bool outside = magnitude > (negative ? 0x80000000u : 0x7FFFFFFFu);
  *status = outside && !zero ? i32_overflow : i32_exact;
  return static_cast<int32_t>(wrapped);
}

void f32_argmax(ArgState& state, const float* a, int32_t first, size_t n) { f32_arg(state, a, first, n, true); }
void f32_argmin(ArgState& state, const float* a, int32_t first, size_t n) { f32_arg(state, a, first, n, false); }
void i32_argmax(ArgStateI32& state, const int32_t* a, int32_t first, size_t n) { i32_arg(state, a, first, n, true); }
void i32_argmin(ArgStateI32& state, const int32_t* a, int32_t first, size_t n) { i32_arg(state, a, first, n, false); }

void welford(WelfordState& state, const float* a, size_t n) {
  if (n == 0) return;
  WelfordState strip;
  strip.count = static_cast<float>(n);
  const float mean = reductions().sum(a, n) / strip.count;
  strip.mean = mean;
  strip.m2 = reductions().sum_squares(a, mean, n);
  state = welford_merge(state, strip);
}

WelfordState welford_merge(const WelfordState& a, const WelfordState& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = static_cast<double>(a.count) + b.count;
  const double difference = static_cast<double>(b.mean) - a.mean;
  WelfordState out;
  out.count = static_cast<float>(count);
  out.mean = static_cast<float>(a.mean + difference * b.count / count);
  out.m2 = static_cast<float>(static_cast<double>(a.m2) + b.m2 + difference * difference * a.count * b.count / count);
  return out;
}

void logsumexp(LogSumExpState& state, const float* a, size_t n) {
  if (n == 0) return;
  LogSumExpState strip;
  strip.max = reductions().max(a, n);
  if (std::isnan(strip.max))
    strip.sum = strip.max;
  else if (std::isinf(strip.max))  // of a strip whose maximum is +Inf only the infinities count
    strip.sum = strip.max > 0 ? static_cast<float>(std::count(a, a + n, infinity)) : 0.0f;
  else
    strip.sum = reductions().sum_exp(a, strip.max, n);
  state = logsumexp_merge(state, strip);
}

LogSumExpState logsumexp_merge(const LogSumExpState& a, const LogSumExpState& b) {
  LogSumExpState out;
  out.max = max_nan(a.max, b.max);
  if (out.max == -infinity) return out;
  out.sum = a.sum * exp_difference(a.max, out.max) + b.sum * exp_difference(b.max, out.max);
  return out;
}

void f32_argmax_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n) {
  reductions().argmax_rows(value, index, row, row_index, n);
}
void f32_argmin_rows(float* value, int32_t* index, const float* row, int32_t row_index, size_t n) {
  reductions().argmin_rows(value, index, row, row_index, n);
}
void welford_rows(float* mean, float* m2, float count, const float* row, size_t n) {
  reductions().welford_rows(mean, m2, 1.0f / (count + 1.0f), row, n);
}
void logsumexp_rows(float* max, float* sum, const float* row, size_t n) {
  reductions().logsumexp_rows(max, sum, row, n);
}

void f32_scan(ScanOp op, float* dst, const float* a, float& carry, size_t n) {
  if (op == ScanOp::sum || op == ScanOp::prod) {
    double running = carry;
    for (size_t i = 0; i < n; ++i) {
      running = op == ScanOp::sum ? running + a[i] : running * a[i];
      dst[i] = static_cast<float>(running);
    }
    carry = static_cast<float>(running);
    return;
  }
  float running = carry;
  for (size_t i = 0; i < n; ++i) {
    running = op == ScanOp::max ? max_nan(running, a[i]) : min_nan(running, a[i]);
    dst[i] = running;
  }
  carry = running;
}

I32Status i32_scan(ScanOp op, int32_t* dst, const int32_t* a, int32_t& carry, size_t n) {
  bool outside = false;
  int32_t running = carry;
  for (size_t i = 0; i < n; ++i) {
    const int64_t exact = op == ScanOp::sum    ? static_cast<int64_t>(running) + a[i]
                          : op == ScanOp::prod ? static_cast<int64_t>(running) * a[i]
                          : op == ScanOp::max  ? std::max(running, a[i])
                                               : std::min(running, a[i]);
    running = static_cast<int32_t>(exact);
    outside |= exact != running;
    dst[i] = running;
  }
  carry = running;
  return outside ? i32_overflow : i32_exact;
}

}  // namespace spyre::card::host
