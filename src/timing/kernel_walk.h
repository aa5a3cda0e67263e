// KernelWalk: follows one core of each class of a kernel through its trips, event by event, skipping periodic ones.
#pragma once

#include <cstdint>
#include <vector>

#include "timing/kernel_model.h"
#include "timing/timeline.h"

namespace spyre::timing {

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
