// Time of a tile program on the described card: one cost function for planner and card, and the walk that overlaps
// steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/description.h"
#include "program/tree.h"

namespace spyre::base {
class TraceWriter;
}

namespace spyre::timing {

/// Scalar values of one launch, by Program scalar id; i32 exactly, f32 as float.
using ScalarValues = std::vector<double>;

struct KernelTime {
  program::Id kernel = program::none;
  int64_t start_ps = 0, duration_ps = 0;
  int64_t bytes_read = 0, bytes_written = 0;  ///< device memory
  int64_t macs = 0;                           ///< PT multiply-accumulates
  int64_t pt_busy_ps = 0;                     ///< of the busiest core class
  bool estimated = false;  ///< too long to walk and not periodic: some trips were taken to last as those walked
};
struct Timeline {
  int64_t total_ps = 0;
  std::vector<KernelTime> calls;  ///< one per Program call
};

struct WalkOptions {
  bool jump = true;                    ///< skip periodic trips (exact); false: the full walk
  base::TraceWriter* trace = nullptr;  ///< a track per unit of the followed cores; implies no jump for traced kernels
  int64_t trace_start_ps = 0;
  std::vector<char> written = {};  ///< per program symbol, whether what ran before has written it; empty: none
};

/// Deterministic, integer picoseconds; depends on program, scalars and description only. `program` must be verified.
Timeline walk(const program::Program& program, const ScalarValues& scalars, const device::Description& description,
              const WalkOptions& options = {});

}  // namespace spyre::timing
