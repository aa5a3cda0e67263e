// KernelWalk: follows one core of each class of a kernel through its trips, event by event, skipping periodic ones.
#pragma once

#include <cstdint>
#include <vector>

#include "timing/kernel_model.h"
#include "timing/timeline.h"

namespace spyre::timing {

/// Times and sums stop growing here, 13 days of modelled time: 2^40 instances may be longer.
constexpr int64_t most_ps = int64_t{1} << 60;

/// a + b x times, at most most_ps. All at least 0.
inline int64_t plus(int64_t a, int64_t b, int64_t times = 1) {
  int64_t product = 0, sum = 0;
  if (__builtin_mul_overflow(b, times, &product) || __builtin_add_overflow(a, product, &sum)) return most_ps;
  return sum < most_ps ? sum : most_ps;
}

struct KernelWalkOptions {
  bool jump = true;
  std::vector<char> reused;  ///< by formal: the program wrote it before, reading costs more
  base::TraceWriter* trace = nullptr;
  const program::Program* program = nullptr;  ///< of the kernel: its locs name trace events
  int64_t trace_start_ps = 0;
};

/// Duration and totals of one run of the kernel. `start_ps` and `kernel` are left to the caller.
KernelTime walk_kernel(const KernelModel& model, const KernelWalkOptions& options);

}  // namespace spyre::timing
