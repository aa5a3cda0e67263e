// cost(): what one execution of a step takes, from its sizes and the description. The one place that prices steps: the
// planner's estimate (max over units of their sums, plus fill) and the card's timeline both call it.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "device/description.h"
#include "layout/access.h"
#include "program/tree.h"

namespace spyre::timing {

/// Price of one execution of a step on one core. All zero: the step does nothing (an empty tile) and takes no time.
struct Cost {
  program::Unit unit = program::Unit::sync;
  int64_t unit_ps = 0;       ///< the unit is busy, when nothing else runs on the card
  int64_t latency_ps = 0;    ///< from then until the result is there; the unit is free already
  int64_t lx_bytes = 0;      ///< through the core's LX port
  int64_t lx_ps = 0;         ///< of that port
  int64_t memory_bytes = 0;  ///< read or (write) written by this core; 1/cores of the group for a shared load
  bool write = false;
  int64_t memory_ps = 0;   ///< of the device memory, for all cores that do the same
  int64_t stream_ps = 0;   ///< of the core's connection to memory
  int64_t link_bytes = 0;  ///< on the fullest link of the ring
  int64_t macs = 0;        ///< PT multiply-accumulates
  bool nothing() const { return unit_ps == 0 && latency_ps == 0; }
};

/// Where a step stands: whatever its price depends on beside its own text.
struct Sizes {
  const program::Kernel& kernel;
  const program::Nest& nest;
  /// Value of an expression of the step for the core and trip in question.
  base::FunctionRef<int64_t(const program::IntExpr&)> value;
  /// Access of a formal (view and geometry).
  base::FunctionRef<const layout::Access&(program::Id)> access;
  /// Slice of a core range on core `core`: false when the core has none. Used by ring.remap.
  base::FunctionRef<bool(program::Id range, int core, int64_t& start, int64_t& size)> slice;
  double copies = 1;  ///< cores, or for a shared load groups, that do the same with other data at the same time
  int64_t neighbour_bytes =
      0;                    ///< device bytes between this core's first element and its neighbour's; 0 = same or unknown
  int64_t reach_bytes = 0;  ///< from the core's first to its last start of this access, over all trips
  double read_extra_ns_per_byte = 0, write_extra_ns_per_byte = 0;  ///< turnaround, reuse
};

Cost cost(const program::Step& step, const Sizes& sizes, const device::Description& description);

/// Sizes of a buffer operand's box, one per buffer dimension.
std::vector<int64_t> box_sizes(const program::BufRef& ref, const Sizes& sizes);

/// Bytes on the fullest link and direction of the data ring, and the longest way, of a ring step (cost() uses it).
struct RingLoad {
  double link_bytes = 0;
  int64_t hops = 0;
};
RingLoad ring_load(const program::Ring& ring, int64_t core_bytes, const Sizes& sizes, const device::Description& d);

/// Core ids along grid dimension `g` of a nest are this far apart.
int64_t grid_stride(const program::Nest& nest, program::Id g);

}  // namespace spyre::timing
