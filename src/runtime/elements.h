// Elements: moving boxes of elements between host memory and device memory. Works at once, knows no streams.
//
// A box is cut into chunks that are contiguous in row-major order; large ones are spread over the thread pool. Only
// elements of the destination view are written, never the rest of a stick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/formats.h"
#include "layout/access.h"
#include "runtime/copies.h"
#include "runtime/memory.h"

namespace spyre::runtime {

/// The bytes behind an allocation's state: what queued work captures.
struct Contents {
  PlacementPtr placement;      ///< null: raw
  std::byte* bytes = nullptr;  ///< host view of the physical bytes
  int64_t logical_bytes = 0;
  int64_t device_bytes() const;  ///< bytes that matter: elements with padding, and the raw tail
};
/// Resolves a state on its device.
Contents contents_of(Device& device, const Allocation::State& state, int64_t logical_bytes);

/// One side of a transfer: a strided host tensor (also raw device bytes), or a view of typed device elements.
struct Side {
  base::HostType type = base::HostType::f32;
  HostTensor host;                          ///< used when access is empty
  std::optional<layout::Access> access;     ///< typed device elements
  std::byte* base = nullptr;                ///< of the device elements
  base::Format format = base::Format::f32;  ///< of the device elements; device_format(type) for a host side
};
Side host_side(const HostTensor& tensor);
/// A view of `type` of these contents. Raw ones make a host side; typed ones of another dtype can't (see
/// `logical_copy`).
Side device_side(const Contents& contents, base::HostType type, const layout::HostView& view);

/// Copies all elements; sizes of the views must be equal. Dtypes may differ: values are converted as copies.h says.
void transfer(const Side& from, const Side& to);
/// All elements of a side, in row-major order, as device elements of its format.
void gather(const Side& from, std::byte* out);
/// The reverse.
void scatter(const std::byte* in, const Side& to);
/// Sets all elements of a side to the host value of its type.
void fill_side(const Side& to, const void* value);

/// n device elements of one format and dtype as elements of another.
void convert_elements(base::Format from, base::HostType from_type, const std::byte* src, base::Format to,
                      base::HostType to_type, std::byte* dst, int64_t n);

/// Logical bytes [first, first + n) of any contents, and back; elements that are covered in part keep their other
/// bytes.
void read_logical(const Contents& from, int64_t first, int64_t n, std::byte* out);
void write_logical(const Contents& to, int64_t first, int64_t n, const std::byte* in);
/// The first n logical bytes of `from` to `to`, whatever their forms.
void move_logical(const Contents& from, const Contents& to, int64_t n);

/// memcpy and memset over the thread pool when it is worth it.
void copy_block(std::byte* to, const std::byte* from, int64_t bytes);
void zero_block(std::byte* to, int64_t bytes);

}  // namespace spyre::runtime
