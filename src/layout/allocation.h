// Allocation: what the device knows of one piece of its memory. The interval table that finds it by address is in
// runtime/.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "layout/geometry.h"

namespace spyre::layout {

/// One allocation. `logical` is the reserved no-access host range that data pointers show; `physical` is the place in
/// device memory. Raw: plain host bytes, one device byte each. Typed: elements of `type` placed by `geometry`. Guarded
/// by the owner (runtime::Memory); `generation` may be read without it.
struct Allocation {
  int device = 0;
  uint64_t serial = 0;  ///< unique in the process, never reused
  uint64_t logical = 0;
  int64_t logical_bytes = 0;  ///< host bytes (nbytes of the storage)
  uint64_t physical = 0;
  int64_t physical_bytes = 0;
  bool typed = false;
  base::HostType type = base::HostType::u8;  ///< typed only: the host dtype that gave it its layout
  Geometry geometry;                         ///< typed only; raw ones use u8 bytes in order
  std::optional<SpyreTensorLayout> layout;   ///< typed only: what users see
  std::atomic<uint64_t> generation{0};       ///< bumped at every enqueued write
};

}  // namespace spyre::layout
