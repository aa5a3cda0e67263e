// Conversions between device formats, as `Tensor.to(dtype)` on the device does them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "runtime/elements.h"

namespace spyre::runtime {

using base::Format;
using base::HostType;

namespace {

bool is_real(Format f) {
  return f == Format::dl16 || f == Format::f16 || f == Format::f32 || f == Format::e4m3 || f == Format::e5m2;
}

template <typename T>
void widen(const std::byte* src, int32_t* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, src + i * static_cast<int64_t>(sizeof v), sizeof v);
    dst[i] = static_cast<int32_t>(v);
  }
}
template <typename T>
void narrow(const int32_t* src, std::byte* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T v = static_cast<T>(src[i]);
    std::memcpy(dst + i * static_cast<int64_t>(sizeof v), &v, sizeof v);
  }
}

void load_integers(Format f, const std::byte* src, int32_t* dst, int64_t n) {
  switch (f) {
    case Format::i8:
      return widen<int8_t>(src, dst, n);
    case Format::i16:
      return widen<int16_t>(src, dst, n);
    default:
      return widen<int32_t>(src, dst, n);
  }
}

void store_integers(const int32_t* src, Format f, HostType type, std::byte* dst, int64_t n) {
  switch (f) {
    case Format::i8:
      return narrow<int8_t>(src, dst, n);
    case Format::i16:
      return narrow<int16_t>(src, dst, n);
    case Format::u32:
      for (int64_t i = 0; i < n; ++i) {
        const uint32_t v = type == HostType::u8 ? static_cast<uint32_t>(src[i]) & 0xFF : static_cast<uint32_t>(src[i]);
        std::memcpy(dst + i * 4, &v, 4);
      }
      return;
    default:
      return narrow<int32_t>(src, dst, n);
  }
}

void store_reals(const float* src, Format f, std::byte* dst, int64_t n) {
  if (f == Format::dl16)
    base::f32_to_dl16(src, reinterpret_cast<uint16_t*>(dst), static_cast<size_t>(n), base::Overflow::infinity);
  else
    base::upload(HostType::f32, src, f, dst, static_cast<size_t>(n));
}

void truncate(const float* src, HostType type, int32_t* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = src[i];
    if (v > -2147483904.0f && v < 2147483648.0f) {
      dst[i] = static_cast<int32_t>(v);
    } else if (type == HostType::i64) {
      fail(Fault::user,
           "cast to int64: {} is outside int32, which is how spyre holds int64; keep such a tensor on the CPU", v);
    } else {
      dst[i] = std::numeric_limits<int32_t>::min();
    }
  }
}

// The bits stay: the format is the same and every value of the one dtype is one of the other.
bool same_bits(Format from, HostType from_type, Format to, HostType to_type) {
  if (from != to) return false;
  return from_type == to_type || is_real(from) ? to_type != HostType::b8 || from_type == HostType::b8
                                               : from == Format::i32;
}

}  // namespace

void convert_elements(Format from, HostType from_type, const std::byte* src, Format to, HostType to_type,
                      std::byte* dst, int64_t n) {
  if (same_bits(from, from_type, to, to_type))
    return void(std::memcpy(dst, src, static_cast<size_t>(n * base::format_bytes(from))));
  constexpr int64_t block = 512;
  float reals[block];
  int32_t integers[block];
  for (int64_t done = 0; done < n; done += block) {
    const int64_t count = std::min(block, n - done);
    const std::byte* const in = src + done * base::format_bytes(from);
    std::byte* const out = dst + done * base::format_bytes(to);
    const bool from_real = is_real(from);
    if (from_real)
      base::download(from, in, HostType::f32, reals, static_cast<size_t>(count));
    else
      load_integers(from, in, integers, count);
    if (to_type == HostType::b8) {
      for (int64_t i = 0; i < count; ++i) reals[i] = (from_real ? reals[i] != 0 : integers[i] != 0) ? 1.0f : 0.0f;
    } else if (is_real(to) && !from_real) {
      for (int64_t i = 0; i < count; ++i) reals[i] = static_cast<float>(integers[i]);
    } else if (!is_real(to) && from_real) {
      truncate(reals, to_type, integers, count);
    }
    if (is_real(to))
      store_reals(reals, to, out, count);
    else
      store_integers(integers, to, to_type, out, count);
  }
}

}  // namespace spyre::runtime
