// The laws of time: what each unit, port and wire of the card takes. Pure functions of sizes and a description; the
// planner's estimates and the card's timeline use these and nothing else. Sources: docs/hardware.md section 3.
#pragma once

#include <cstdint>

#include "base/formats.h"
#include "device/description.h"

namespace spyre::timing {

/// Cycles of a clock (GHz) to picoseconds, rounded up.
int64_t cycles_ps(double cycles, double ghz);
/// Bytes at a rate (GB/s = bytes/ns) to picoseconds, rounded up.
int64_t bytes_ps(double bytes, double gbps);

/// A core's LX port: `bytes` in and out.
int64_t lx_port_ps(int64_t bytes, const device::Description& d);

/// PT: [m,k] x [k,n] on one core. Each weight block takes fill_rows rows' time to load; k and n are padded to whole
/// elements of the unit. m, n, k in elements, > 0.
int64_t pt_ps(int64_t m, int64_t n, int64_t k, base::Format operands, const device::Description& d);
/// LX bytes of the same: inputs once per pair of weight columns, weights once, f32 sums in and out per weight block
/// row.
int64_t pt_lx_bytes(int64_t m, int64_t n, int64_t k, base::Format operands, const device::Description& d);

/// SFP: `vectors` lane vectors times `cycles` each, divided among the corelets.
int64_t sfp_ps(double vector_cycles, const device::Description& d);
/// SFP, across the lanes of `sticks` sticks of one core.
int64_t sfp_lanes_ps(int64_t sticks, const device::Description& d);

/// One memory transfer as the whole card sees it.
struct MemoryWork {
  bool write = false;
  int64_t core_bytes = 0;  ///< of one core (read by a group together counts once)
  double copies = 1;       ///< cores, or groups of a shared load, that do the same at the same time: distinct data
  bool multicast = false;  ///< each copy goes to several cores
  int64_t requests = 0;    ///< bursts of one core
  int64_t row_split_bytes =
      0;  ///< stride between neighbouring cores' starts where their rows interleave; 0 = they do not
  double extra_ns_per_byte = 0;  ///< turnaround, reuse of what was just written
};
struct MemoryTime {
  int64_t unit_ps = 0;    ///< alone on the card
  int64_t memory_ps = 0;  ///< of the device memory, for all copies
  int64_t stream_ps = 0;  ///< of the core's connection
};
MemoryTime memory_time(const MemoryWork& w, const device::Description& d);

/// Data ring: bytes on the fullest link and direction, and the longest way in hops.
int64_t ring_ps(double link_bytes, int64_t hops, const device::Description& d);
/// Partial sums of `group` cores, `bytes` (f32) each: pairs, then pairs of pairs, so ceil(log2(group)) transfers in
/// turn, over links that carry `shared` such streams at a time.
int64_t psum_ps(int64_t bytes, int64_t group, int64_t shared, const device::Description& d);

}  // namespace spyre::timing
