// The container's frame. Bytes, little-endian whatever the host:
//   0  "SPTP"            4  version (u32)     8  length of the payload (u64)    16  CRC-32 of the payload (u32)    20
//   payload
// The payload is a stream of the tree's fields in order (container_fields.h): integers as varints of 7 bits, low first,
// signed ones zigzag, ids + 1; floats as 8 bytes; texts and lists behind their length. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace spyre::program::container {

constexpr char magic[4] = {'S', 'P', 'T', 'P'};
constexpr uint32_t version = 1;  ///< raised with every change of the fields or of their meaning
constexpr size_t header_bytes = 20;

/// A frame around a payload.
std::vector<std::byte> seal(std::span<const std::byte> payload);
/// The payload of a frame. Throws Error(program) when the frame is not whole and unharmed.
std::span<const std::byte> open(std::span<const std::byte> bytes);

}  // namespace spyre::program::container
