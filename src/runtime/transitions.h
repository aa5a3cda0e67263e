// Transitions: what changes an allocation's form (raw or typed, layout, size) without changing its logical bytes.
//
// The form changes at the call, the bytes move in the order of `stream`; work enqueued earlier goes on with the old
// form. The logical bytes of a typed allocation are those of its elements as host values of its dtype, so a transition
// rounds as an upload does (float16 through DL16). When the move fails (an int64 outside int32), the old form comes
// back if nobody changed it since.
#pragma once

#include <cstdint>

#include "runtime/memory.h"

namespace spyre::runtime {

/// Makes a raw allocation typed, or a typed one of another dtype typed by `placement` (through its logical bytes); the
/// first typed use. Nothing happens when it has placement->type already, whatever its layout. Throws Error(user) when
/// the placement holds more elements than logical_bytes, Error(out_of_memory), and what uploads throw.
void make_typed(Allocation& allocation, const PlacementPtr& placement, Stream& stream);
/// Makes it raw: before a write through another dtype. Nothing happens when it is.
void make_raw(Allocation& allocation, Stream& stream);
/// Moves the elements to another layout of the same dtype; a raw one becomes typed. Throws Error(user) when the dtype
/// differs.
void relayout(Allocation& allocation, const PlacementPtr& placement, Stream& stream);
/// A new allocation of the same form with a copy of the device bytes; a copy on another device when `stream` belongs to
/// one.
AllocationPtr clone_storage(Allocation& allocation, Stream& stream);
/// A new allocation of `nbytes` with the old logical bytes as far as they go; what a growth adds is undefined. Its form
/// is `placement`, or when that is null: raw stays raw, typed becomes linear in the same dtype.
AllocationPtr resize(Allocation& allocation, int64_t nbytes, Stream& stream, PlacementPtr placement = nullptr);

/// Logical bytes [first, first + bytes) to host memory, ordered after the work on `stream`; waits for it. Any form.
void read_bytes(Allocation& allocation, int64_t first, int64_t bytes, void* destination, Stream& stream);
/// Host memory to logical bytes; the source may be reused on return. Makes the allocation raw first.
void write_bytes(Allocation& allocation, int64_t first, int64_t bytes, const void* source, Stream& stream);
/// Logical bytes of one allocation to another (UntypedStorage.copy_), also between devices; makes the destination raw
/// first, except that whole storages of one size take over the source's form. Overlap within one allocation is safe.
void copy_bytes(Allocation& from, int64_t from_first, Allocation& to, int64_t to_first, int64_t bytes, Stream& stream);
/// Sets all logical bytes to 0, in any form.
void zero_bytes(Allocation& allocation, Stream& stream);

}  // namespace spyre::runtime
