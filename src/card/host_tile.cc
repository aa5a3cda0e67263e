#include "card/host_tile.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "card/host_matmul_simd.h"
#include "card/host_vector_simd.h"

namespace spyre::card::host {
namespace {

using base::HostType;

void need_real(Format f, const char* what) {
  if (!is_real(f)) fail(Fault::program, "{}: {} elements are integers, not real numbers", what, base::format_name(f));
}
void need_integer(Format f, const char* what) {
  if (is_real(f)) fail(Fault::program, "{}: {} elements are real numbers, not integers", what, base::format_name(f));
}

// Calls body(byte offset in the tile, column of the box, columns) for the part of the box in each stick column.
template <typename Body>
void for_sticks(Format f, int64_t per_stick, int64_t stick_stride, int64_t first, int64_t cols, Body body) {
  for (int64_t done = 0; done < cols;) {
    const int64_t column = first + done, in_stick = column % per_stick;
    const int64_t count = std::min(per_stick - in_stick, cols - done);
    body(column / per_stick * stick_stride + in_stick * base::format_bytes(f), done, count);
    done += count;
  }
}

constexpr int64_t group = 16;

}  // namespace

bool is_real(Format format) {
  switch (format) {
    case Format::dl16:
    case Format::f16:
    case Format::f32:
    case Format::e4m3:
    case Format::e5m2:
      return true;
    default:
      return false;
  }
}

void unpack(Format format, const void* src, float* dst, size_t n) {
  if (format == Format::dl16) return base::dl16_to_f32(static_cast<const uint16_t*>(src), dst, n);
  need_real(format, "unpack to float32");
  base::download(format, src, HostType::f32, dst, n);
}

void unpack(Format format, const void* src, int32_t* dst, size_t n) {
  switch (format) {
    case Format::i32:
    case Format::u32:
      if (n) std::memcpy(dst, src, n * 4);
      return;
    case Format::i16:
      return integers().widen_i16(dst, static_cast<const int16_t*>(src), n);
    case Format::i8:
      return integers().widen_i8(dst, static_cast<const int8_t*>(src), n);
    default:
      need_integer(format, "unpack to int32");
  }
}

void pack(Format format, const float* src, void* dst, size_t n) {
  if (format == Format::dl16) return base::f32_to_dl16(src, static_cast<uint16_t*>(dst), n, base::Overflow::infinity);
  need_real(format, "pack from float32");
  base::upload(HostType::f32, src, format, dst, n);
}

void pack(Format format, const int32_t* src, void* dst, size_t n) {
  switch (format) {
    case Format::i32:
    case Format::u32:
      if (n) std::memcpy(dst, src, n * 4);
      return;
    case Format::i16:
      return integers().narrow_i16(static_cast<int16_t*>(dst), src, n);
    case Format::i8:
      return integers().narrow_i8(static_cast<int8_t*>(dst), src, n);
    default:
      need_integer(format, "pack from int32");
  }
}

void unpack(const Tile& tile, int64_t rows, int64_t first, int64_t cols, float* dst, int64_t dst_stride) {
  need_real(tile.format, "unpack to float32");
  for_sticks(tile.format, tile.per_stick(), tile.stick_stride, first, cols,
             [&](int64_t offset, int64_t at, int64_t count) {
               const std::byte* src = tile.data + offset;
               if (tile.format == Format::dl16 && count % group == 0)
                 return matrices().unpack_dl16(reinterpret_cast<const uint16_t*>(src), tile.row_stride / 2, rows,
                                               static_cast<int>(count / group), dst + at, dst_stride, group);
               for (int64_t r = 0; r < rows; ++r)
                 unpack(tile.format, src + r * tile.row_stride, dst + r * dst_stride + at, static_cast<size_t>(count));
             });
}

void unpack(const Tile& tile, int64_t rows, int64_t first, int64_t cols, int32_t* dst, int64_t dst_stride) {
  need_integer(tile.format, "unpack to int32");
  for_sticks(tile.format, tile.per_stick(), tile.stick_stride, first, cols,
             [&](int64_t offset, int64_t at, int64_t count) {
               for (int64_t r = 0; r < rows; ++r)
                 unpack(tile.format, tile.data + offset + r * tile.row_stride, dst + r * dst_stride + at,
                        static_cast<size_t>(count));
             });
}

void pack(const float* src, int64_t src_stride, int64_t rows, int64_t first, int64_t cols, const MutableTile& tile) {
  need_real(tile.format, "pack from float32");
  constexpr int64_t codes = base::elements_per_stick(Format::dl16);
  if (tile.format == Format::dl16 && first % codes == 0 && cols % group == 0)
    return matrices().pack_dl16(src, src_stride, rows, cols / group,
                                reinterpret_cast<uint16_t*>(tile.data + first / codes * tile.stick_stride),
                                tile.row_stride / 2, tile.stick_stride / 2);
  for_sticks(tile.format, base::elements_per_stick(tile.format), tile.stick_stride, first, cols,
             [&](int64_t offset, int64_t at, int64_t count) {
               std::byte* dst = tile.data + offset;
               if (tile.format == Format::dl16 && count % group == 0)
                 return matrices().pack_dl16(src + at, src_stride, rows, count / group,
                                             reinterpret_cast<uint16_t*>(dst), tile.row_stride / 2,
                                             tile.stick_stride / 2);
               for (int64_t r = 0; r < rows; ++r)
                 pack(tile.format, src + r * src_stride + at, dst + r * tile.row_stride, static_cast<size_t>(count));
             });
}

void pack(const int32_t* src, int64_t src_stride, int64_t rows, int64_t first, int64_t cols, const MutableTile& tile) {
  need_integer(tile.format, "pack from int32");
  for_sticks(tile.format, base::elements_per_stick(tile.format), tile.stick_stride, first, cols,
             [&](int64_t offset, int64_t at, int64_t count) {
               for (int64_t r = 0; r < rows; ++r)
                 pack(tile.format, src + r * src_stride + at, tile.data + offset + r * tile.row_stride,
                      static_cast<size_t>(count));
             });
}

namespace {

// In blocks of 16 x 16, so that lines of both sides stay in the first-level cache.
template <typename T>
void transpose_elements(const char* src, int64_t src_stride, char* dst, int64_t dst_stride, int64_t rows,
                        int64_t cols) {
  for (int64_t r0 = 0; r0 < rows; r0 += group)
    for (int64_t c0 = 0; c0 < cols; c0 += group)
      for (int64_t c = c0; c < std::min(cols, c0 + group); ++c)
        for (int64_t r = r0; r < std::min(rows, r0 + group); ++r)
          std::memcpy(dst + c * dst_stride + r * sizeof(T), src + r * src_stride + c * sizeof(T), sizeof(T));
}

}  // namespace

void transpose(int element_bytes, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t rows,
               int64_t cols) {
  const auto* from = static_cast<const char*>(src);
  auto* to = static_cast<char*>(dst);
  switch (element_bytes) {
    case 1:
      return transpose_elements<uint8_t>(from, src_stride, to, dst_stride, rows, cols);
    case 2:
      return transpose_elements<uint16_t>(from, src_stride, to, dst_stride, rows, cols);
    case 4:
      return transpose_elements<uint32_t>(from, src_stride, to, dst_stride, rows, cols);
    default:
      fail(Fault::program, "transpose: elements of {} bytes (expected 1, 2 or 4)", element_bytes);
  }
}

}  // namespace spyre::card::host
