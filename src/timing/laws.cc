#include "timing/laws.h"
#include "base/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace spyre::timing {
namespace {

int64_t ps(double ns) { return static_cast<int64_t>(std::ceil(ns * 1000.0 - 1e-6)); }

}  // namespace

int64_t cycles_ps(double cycles, double ghz) { return ps(cycles / ghz); }
int64_t bytes_ps(double bytes, double gbps) { return ps(bytes / gbps); }

int64_t lx_port_ps(int64_t bytes, const device::Description& d) {
  return cycles_ps(static_cast<double>(bytes) / (d.lx_port_bytes_per_cycle * d.lx_port_efficiency), d.core_ghz);
}

int64_t pt_ps(int64_t m, int64_t n, int64_t k, base::Format operands, const device::Description& d) {
  const int speed = base::format_bytes(operands) == 1 ? d.pt_fp8_factor : 1;
  const int64_t n_padded = base::round_up(n, d.pt_columns),
                k_padded = base::round_up(k, int64_t{d.pt_rows} * d.pt_simd);
  const double row_cycles =
      static_cast<double>(n_padded) * static_cast<double>(k_padded) / (d.pt_macs_per_cycle_core * speed);
  return cycles_ps(static_cast<double>(m + d.pt_fill_rows) * row_cycles, d.core_ghz);
}

int64_t pt_lx_bytes(int64_t m, int64_t n, int64_t k, base::Format operands, const device::Description& d) {
  const int64_t bytes = base::format_bytes(operands);
  const int64_t columns =
      (n + d.pt_weight_block_n * d.corelets_per_core - 1) / (d.pt_weight_block_n * d.corelets_per_core);
  const int64_t blocks = (k + d.pt_weight_block_k - 1) / d.pt_weight_block_k;
  return (m * k * columns + k * n) * bytes + 2 * 4 * m * n * blocks;
}

int64_t sfp_ps(double vector_cycles, const device::Description& d) {
  return cycles_ps(vector_cycles / d.corelets_per_core, d.core_ghz);
}

int64_t sfp_lanes_ps(int64_t sticks, const device::Description& d) {
  return cycles_ps(static_cast<double>(sticks) * d.sfp_lane_reduce_cycles, d.core_ghz);
}

MemoryTime memory_time(const MemoryWork& w, const device::Description& d) {
  const double bytes = static_cast<double>(w.core_bytes), all = bytes * w.copies;
  double gbps = d.memory_gbps;
  if (w.row_split_bytes > 0) {
    for (const auto& entry : d.row_split) {
      if (w.row_split_bytes >= entry.stride_bytes) gbps = std::min(gbps, entry.gbps);
    }
  }
  MemoryTime t;
  t.memory_ps = ps(all / gbps + all * w.extra_ns_per_byte);
  t.stream_ps = bytes_ps(bytes, d.memory_core_gbps_all);
  t.unit_ps = std::max(
      {t.memory_ps, bytes_ps(bytes, d.memory_core_gbps),
       ps(static_cast<double>(w.requests) * d.memory_latency_ns / static_cast<double>(d.outstanding_requests))});
  if (w.multicast) t.unit_ps = std::max(t.unit_ps, bytes_ps(bytes, d.multicast_stream_gbps));
  return t;
}

int64_t ring_ps(double link_bytes, int64_t hops, const device::Description& d) {
  return cycles_ps(link_bytes / d.ring_bytes_per_cycle + static_cast<double>(hops) * d.ring_hop_cycles, d.ring_ghz);
}

int64_t psum_ps(int64_t bytes, int64_t group, int64_t shared, const device::Description& d) {
  const double one = static_cast<double>(bytes * shared) / d.psum_bytes_per_cycle;
  return cycles_ps(std::bit_width(static_cast<uint64_t>(group - 1)) * one, d.core_ghz);
}

}  // namespace spyre::timing
