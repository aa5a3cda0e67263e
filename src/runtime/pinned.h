// Pinned host memory: buffers whose copies may run after the call that asked for them.
//
// The soft card needs no locked pages; what pinned memory gives is ownership: a freed buffer isn't handed out again
// before the copies that use it are done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/streams.h"

namespace spyre::runtime {

/// `bytes` of host memory, aligned to 64 bytes, from a cache of earlier ones; never null. Throws Error(system) when the
/// host has no memory. Starts no device.
void* allocate_pinned(size_t bytes);
/// Gives it back; copies on their way are waited for before it is used again. Never throws; `pointer` null does
/// nothing. Throws nothing for a pointer that isn't one: it is ignored.
void free_pinned(void* pointer) noexcept;
/// True when `pointer` lies inside a pinned buffer that is in use.
bool is_pinned(const void* pointer);
/// Tells that work enqueued on `stream` uses the buffer around `pointer`; false when there is none. The copies of this
/// folder call it themselves.
bool note_pinned_use(const void* pointer, Stream& stream);
/// Gives cached buffers that nothing uses back to the host.
void empty_pinned_cache();

struct PinnedStatistics {
  int64_t buffers = 0, bytes = 0;                ///< in use by callers
  int64_t cached_buffers = 0, cached_bytes = 0;  ///< free, or waiting for copies
};
PinnedStatistics pinned_statistics();

}  // namespace spyre::runtime
