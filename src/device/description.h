// The device description: ONE JSON file with every number of the hardware, each with unit, kind and source.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace spyre::device {

/// All numbers of one card. machine = belongs to the hardware, used by the card and the planner; stack = belongs to the
/// published software's schedule, used only when comparing with measured rows (bench/vendor_schedule).
struct Description {
  std::string name;
  // machine
  int cores = 0;
  int corelets_per_core = 0;
  int64_t lx_bytes = 0;         ///< size of one core's LX
  int64_t lx_usable_bytes = 0;  ///< the verifier's limit
  double core_ghz = 0, ring_ghz = 0;
  int pt_macs_per_cycle_core = 0;  ///< fp16 multiply-accumulates per cycle and core
  int pt_fp8_factor = 0;           ///< fp8 rate over fp16
  int pt_weight_block_k = 0, pt_weight_block_n = 0,
      pt_fill_rows = 0;                      ///< weight block; rows' worth of time to load one (16)
  int sfp_lanes_f16 = 0, sfp_lanes_f32 = 0;  ///< lanes per corelet and cycle
  int lx_port_bytes_per_cycle = 0;
  double lx_port_efficiency = 0;
  int ring_bytes_per_cycle = 0, ring_nodes = 0;
  int psum_bytes_per_cycle = 0;
  int64_t memory_bytes = 0;         ///< usable (reported) device memory
  int64_t address_space_bytes = 0;  ///< segments x segment_bytes
  int segments = 0;
  int64_t segment_bytes = 0;
  double memory_gbps = 0, memory_core_gbps = 0, memory_core_gbps_all = 0;  ///< sustained; per core stream; see the JSON
  double memory_raw_gbps = 0, memory_port_gbps = 0;  ///< LPDDR5 interface; link of the memory node
  /// Read rate when neighbouring cores' rows interleave and start `stride_bytes` apart: that of the largest entry not
  /// above the stride; memory_gbps below the first entry. Ascending.
  struct RowSplit {
    int64_t stride_bytes = 0;
    double gbps = 0;
  };
  std::vector<RowSplit> row_split;
  double turnaround_ns_per_byte = 0, raw_reuse_ns_per_byte = 0, broadcast_ns_per_byte = 0, multicast_stream_gbps = 0;
  double memory_latency_ns = 0;  ///< fixed time of a transfer
  int channels = 0;
  int64_t channel_interleave_bytes = 0, allocation_alignment_bytes = 0;
  int64_t burst_sticks = 0, outstanding_requests = 0;
  int64_t span_bytes_per_core = 0;  ///< of one tensor per core per kernel
  int64_t max_trips = 0;
  double host_transfer_gbps = 0;  ///< modelled PCIe rate
  int pt_rows = 0, pt_columns = 0,
      pt_simd = 0;  ///< of one corelet; their product with the corelets is pt_macs_per_cycle_core
  int sfp_simple_cycles = 0, sfp_divide_cycles = 0, sfp_function_cycles = 0,
      sfp_philox_cycles = 0;         ///< per lane vector
  int sfp_lane_reduce_cycles = 0;    ///< per stick reduced across its lanes, per core
  int sfp_element_cycles = 0;        ///< per row moved by a gather or scatter inside LX, besides its sticks
  int lx_gather_element_cycles = 0;  ///< port cycles to place one element of an element gather
  int ring_hop_cycles = 0;           ///< latency of one hop
  int step_cycles = 0;               ///< to start a step on its unit
  int64_t lookahead_steps = 0;       ///< step instances a core knows ahead of those that have started

  /// The published software's schedule. Never used by the card or the planner.
  struct Stack {
    int64_t lx_usable_bytes = 0;
    double ring_shift_ns = 0, ring_shift_gbps = 0;  ///< fixed time and slope of a shift
    double move_execute_ns = 0;                     ///< fixed time of a data-move execute
    double relayout_run_ns = 0, relayout_run_log2_ns = 0, relayout_gbps = 0;
    double matmul_overlap_loss = 0;  ///< part of min(compute, read) that is not hidden
    int drain_overlapped = 0;        ///< 0: output is written after the last multiplication
    int split_k_corelets = 0;        ///< corelets that compute when K is split over cores
    double launch_wall_us = 0;       ///< host time of a launch
  } stack;

  /// 128-bit hash in hex of all values, after overrides: part of every cache key.
  std::string hash;
};

/// Parses and validates. Throws Error(configuration) naming the field (path in the JSON) and what is wrong with it.
Description parse_description(std::string_view json, std::string_view origin);
/// The built-in description, or that of the file in SPYRE_DESCRIPTION; SENCORES overrides the core count. Not cached.
Description load_description();
/// load_description() once per process.
const Description& current_description();

}  // namespace spyre::device
