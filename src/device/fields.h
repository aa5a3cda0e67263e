// The list of a description's fields: path in the JSON, place in the struct, unit, kind and sane range. Parsing and
// hashing walk this one list.
#pragma once

#include "device/description.h"

namespace spyre::device {

/// Calls v(path, reference, unit, kind, lo, hi) for every constant; lo and hi bound the value (each number of a list).
template <typename V>
void visit_fields(Description& d, V&& v) {
  constexpr const char *machine = "machine", *stack = "stack";
  constexpr double kib = 1024, gib = kib * kib * kib, tib = kib * gib;
  v("chip.cores", d.cores, "count", machine, 1, 1024);
  v("chip.corelets_per_core", d.corelets_per_core, "count", machine, 1, 16);
  v("chip.core_ghz", d.core_ghz, "GHz", machine, 0.01, 20);
  v("chip.ring_ghz", d.ring_ghz, "GHz", machine, 0.01, 20);
  v("lx.bytes", d.lx_bytes, "bytes", machine, kib, gib);
  v("lx.usable_bytes", d.lx_usable_bytes, "bytes", machine, kib, gib);
  v("lx.port_bytes_per_cycle", d.lx_port_bytes_per_cycle, "bytes/cycle", machine, 1, 65536);
  v("lx.port_efficiency", d.lx_port_efficiency, "ratio", machine, 0.01, 1);
  v("lx.gather_element_cycles", d.lx_gather_element_cycles, "cycles", machine, 0, 1000);
  v("pt.macs_per_cycle_core", d.pt_macs_per_cycle_core, "MAC/cycle", machine, 1, 1 << 24);
  v("pt.rows", d.pt_rows, "count", machine, 1, 4096);
  v("pt.columns", d.pt_columns, "count", machine, 1, 4096);
  v("pt.simd", d.pt_simd, "count", machine, 1, 4096);
  v("pt.fp8_factor", d.pt_fp8_factor, "ratio", machine, 1, 16);
  v("pt.weight_block_k", d.pt_weight_block_k, "elements", machine, 1, 65536);
  v("pt.weight_block_n", d.pt_weight_block_n, "elements", machine, 1, 65536);
  v("pt.fill_rows", d.pt_fill_rows, "rows", machine, 0, 65536);
  v("sfp.lanes_f16", d.sfp_lanes_f16, "lanes", machine, 1, 65536);
  v("sfp.lanes_f32", d.sfp_lanes_f32, "lanes", machine, 1, 65536);
  v("sfp.simple_cycles", d.sfp_simple_cycles, "cycles", machine, 1, 1000);
  v("sfp.divide_cycles", d.sfp_divide_cycles, "cycles", machine, 1, 1000);
  v("sfp.function_cycles", d.sfp_function_cycles, "cycles", machine, 1, 1000);
  v("sfp.philox_cycles", d.sfp_philox_cycles, "cycles", machine, 1, 10000);
  v("sfp.lane_reduce_cycles", d.sfp_lane_reduce_cycles, "cycles", machine, 1, 1000);
  v("sfp.element_cycles", d.sfp_element_cycles, "cycles", machine, 0, 1000);
  v("ring.bytes_per_cycle", d.ring_bytes_per_cycle, "bytes/cycle", machine, 1, 65536);
  v("ring.nodes", d.ring_nodes, "count", machine, 2, 4096);
  v("ring.hop_cycles", d.ring_hop_cycles, "cycles", machine, 0, 10000);
  v("psum.bytes_per_cycle", d.psum_bytes_per_cycle, "bytes/cycle", machine, 1, 65536);
  v("memory.bytes", d.memory_bytes, "bytes", machine, kib * kib, 64 * tib);
  v("memory.address_space_bytes", d.address_space_bytes, "bytes", machine, kib * kib, 64 * tib);
  v("memory.segments", d.segments, "count", machine, 2, 1024);
  v("memory.segment_bytes", d.segment_bytes, "bytes", machine, 4096, 64 * tib);
  v("memory.gbps", d.memory_gbps, "GB/s", machine, 0.1, 100000);
  v("memory.raw_gbps", d.memory_raw_gbps, "GB/s", machine, 0.1, 100000);
  v("memory.port_gbps", d.memory_port_gbps, "GB/s", machine, 0.1, 100000);
  v("memory.core_gbps", d.memory_core_gbps, "GB/s", machine, 0.1, 100000);
  v("memory.core_gbps_all", d.memory_core_gbps_all, "GB/s", machine, 0.1, 100000);
  v("memory.row_split_gbps", d.row_split, "bytes, GB/s", machine, 0.1, tib);
  v("memory.multicast_stream_gbps", d.multicast_stream_gbps, "GB/s", machine, 0.1, 100000);
  v("memory.turnaround_ns_per_byte", d.turnaround_ns_per_byte, "ns/B", machine, 0, 10);
  v("memory.raw_reuse_ns_per_byte", d.raw_reuse_ns_per_byte, "ns/B", machine, 0, 10);
  v("memory.broadcast_ns_per_byte", d.broadcast_ns_per_byte, "ns/B", machine, 0, 10);
  v("memory.latency_ns", d.memory_latency_ns, "ns", machine, 0, 1e6);
  v("memory.channels", d.channels, "count", machine, 1, 1024);
  v("memory.channel_interleave_bytes", d.channel_interleave_bytes, "bytes", machine, 128, gib);
  v("memory.allocation_alignment_bytes", d.allocation_alignment_bytes, "bytes", machine, 128, gib);
  v("memory.burst_sticks", d.burst_sticks, "sticks", machine, 1, 65536);
  v("memory.outstanding_requests", d.outstanding_requests, "count", machine, 1, 65536);
  v("memory.span_bytes_per_core", d.span_bytes_per_core, "bytes", machine, 4096, 64 * tib);
  v("control.max_trips", d.max_trips, "count", machine, 1, 4294967295.0);
  v("control.step_cycles", d.step_cycles, "cycles", machine, 0, 1000000);
  v("control.lookahead_steps", d.lookahead_steps, "count", machine, 1, 4096);
  v("host.transfer_gbps", d.host_transfer_gbps, "GB/s", machine, 0.01, 10000);
  v("stack.lx_usable_bytes", d.stack.lx_usable_bytes, "bytes", stack, kib, gib);
  v("stack.ring_shift_ns", d.stack.ring_shift_ns, "ns", stack, 0, 1e9);
  v("stack.ring_shift_gbps", d.stack.ring_shift_gbps, "GB/s", stack, 0.1, 100000);
  v("stack.move_execute_ns", d.stack.move_execute_ns, "ns", stack, 0, 1e9);
  v("stack.relayout_run_ns", d.stack.relayout_run_ns, "ns", stack, -1000, 1000);
  v("stack.relayout_run_log2_ns", d.stack.relayout_run_log2_ns, "ns", stack, -1000, 1000);
  v("stack.relayout_gbps", d.stack.relayout_gbps, "GB/s", stack, 0.1, 100000);
  v("stack.matmul_overlap_loss", d.stack.matmul_overlap_loss, "ratio", stack, 0, 1);
  v("stack.drain_overlapped", d.stack.drain_overlapped, "count", stack, 0, 1);
  v("stack.split_k_corelets", d.stack.split_k_corelets, "count", stack, 1, 16);
  v("stack.launch_wall_us", d.stack.launch_wall_us, "us", stack, 0, 1e9);
}

}  // namespace spyre::device
