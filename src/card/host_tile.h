// Tiles of any format to and from rows of float32 or int32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/formats.h"

namespace spyre::card::host {

using base::Format;

/// A two-dimensional tile in sticks of 128 bytes: element (r, c) is at data + r * row_stride + (c / e) * stick_stride +
/// (c % e) * format_bytes, with e = lanes, or elements per stick when lanes is 0; strides in bytes. Rows one after
/// another: stick_stride = 128. Stick columns as device memory has them: row_stride = 128.
struct Tile {
  Format format = Format::dl16;
  const std::byte* data = nullptr;
  int64_t row_stride = 0;
  int64_t stick_stride = base::stick_bytes;
  int64_t lanes = 0;  ///< elements that each stick holds, 0: all it can (heads of attention may fill half a stick)
  int64_t per_stick() const { return lanes ? lanes : base::elements_per_stick(format); }
};

/// The same, written to; sticks are full.
struct MutableTile {
  Format format = Format::dl16;
  std::byte* data = nullptr;
  int64_t row_stride = 0;
  int64_t stick_stride = base::stick_bytes;
};

/// True if elements of the format are unpacked to float32 (dl16 f16 f32 e4m3 e5m2), false for int32 (i32 u32 i16 i8).
bool is_real(Format format);

/// Rows 0..rows-1, columns first..first+cols-1 to float rows that start dst_stride elements apart. Throws
/// Error(program) for an integer format.
void unpack(const Tile& tile, int64_t rows, int64_t first, int64_t cols, float* dst, int64_t dst_stride);
/// The same to int32 (u32 as the same bits). Throws Error(program) for a real format.
void unpack(const Tile& tile, int64_t rows, int64_t first, int64_t cols, int32_t* dst, int64_t dst_stride);

/// Float rows into columns first.. of a tile; overflow gives infinity. Throws Error(program) for an integer format.
void pack(const float* src, int64_t src_stride, int64_t rows, int64_t first, int64_t cols, const MutableTile& tile);
/// The same from int32; i16 and i8 keep the low bits. Throws Error(program) for a real format.
void pack(const int32_t* src, int64_t src_stride, int64_t rows, int64_t first, int64_t cols, const MutableTile& tile);

/// Contiguous forms: n elements of a format that are one after another.
void unpack(Format format, const void* src, float* dst, size_t n);
void unpack(Format format, const void* src, int32_t* dst, size_t n);
void pack(Format format, const float* src, void* dst, size_t n);
void pack(Format format, const int32_t* src, void* dst, size_t n);

/// dst[c][r] = src[r][c] for elements of 1, 2 or 4 bytes; strides between rows in bytes. Throws Error(program) for
/// other sizes.
void transpose(int element_bytes, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
               int64_t cols);

}  // namespace spyre::card::host
