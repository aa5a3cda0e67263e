#include "card/elements.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace spyre::card {

namespace {

template <typename T>
T at(const std::byte* p, int64_t i) {
  return reinterpret_cast<const T*>(p)[i];
}
template <typename T>
T& at(std::byte* p, int64_t i) {
  return reinterpret_cast<T*>(p)[i];
}

template <typename T>
void fill(std::byte* to, int64_t n, uint32_t bits) {
  std::fill_n(reinterpret_cast<T*>(to), n, static_cast<T>(bits));
}

}  // namespace

uint32_t encode_element(double value, Format format) {
  const auto f = static_cast<float>(value);
  uint32_t bits = 0;
  switch (format) {
    case Format::dl16:
      return base::f32_to_dl16(f, base::Overflow::saturate);
    case Format::f16:
      return base::f32_to_f16(f);
    case Format::e4m3:
      return base::f32_to_e4m3(f);
    case Format::e5m2:
      return base::f32_to_e5m2(f);
    case Format::f32:
      std::memcpy(&bits, &f, 4);
      return bits;
    default:
      break;
  }
  if (!(value >= -2147483648.0 && value <= 4294967295.0) || value != static_cast<double>(static_cast<int64_t>(value)))
    fail(Fault::program, "{} is no value of {}", value, base::format_name(format));
  return static_cast<uint32_t>(static_cast<int64_t>(value));
}

void fill_elements(std::byte* to, int64_t n, uint32_t bits, Format format) {
  const int bytes = base::format_bytes(format);
  const uint32_t low = bits & 0xFF;
  if (bytes == 1 || (bytes == 2 && bits == low * 0x101) || bits == low * 0x1010101) {
    std::memset(to, static_cast<int>(low), static_cast<size_t>(n * bytes));
    return;
  }
  switch (bytes) {
    case 2:
      fill<uint16_t>(to, n, bits);
      break;
    default:
      fill<uint32_t>(to, n, bits);
      break;
  }
}

void load_f32(const std::byte* from, Format format, int64_t step, float* to, int64_t n) {
  switch (format) {
    case Format::dl16:
      if (step == 1) return base::dl16_to_f32(reinterpret_cast<const uint16_t*>(from), to, static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) to[i] = base::dl16_to_f32(at<uint16_t>(from, i * step));
      return;
    case Format::f16:
      for (int64_t i = 0; i < n; ++i) to[i] = base::f16_to_f32(at<uint16_t>(from, i * step));
      return;
    case Format::f32:
      if (step == 1) {
        std::memcpy(to, from, static_cast<size_t>(n) * 4);
        return;
      }
      for (int64_t i = 0; i < n; ++i) to[i] = at<float>(from, i * step);
      return;
    case Format::e4m3:
      for (int64_t i = 0; i < n; ++i) to[i] = base::e4m3_to_f32(at<uint8_t>(from, i * step));
      return;
    case Format::e5m2:
      for (int64_t i = 0; i < n; ++i) to[i] = base::e5m2_to_f32(at<uint8_t>(from, i * step));
      return;
    case Format::i32:
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(at<int32_t>(from, i * step));
      return;
    case Format::u32:
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(at<uint32_t>(from, i * step));
      return;
    case Format::i16:
      for (int64_t i = 0; i < n; ++i) to[i] = at<int16_t>(from, i * step);
      return;
    case Format::i8:
      for (int64_t i = 0; i < n; ++i) to[i] = at<int8_t>(from, i * step);
      return;
  }
}

void load_i32(const std::byte* from, Format format, int64_t step, int32_t* to, int64_t n) {
  switch (format) {
    case Format::i32:
    case Format::u32:
      if (step == 1) {
        std::memcpy(to, from, static_cast<size_t>(n) * 4);
        return;
      }
      for (int64_t i = 0; i < n; ++i) to[i] = at<int32_t>(from, i * step);
      return;
    case Format::i16:
      for (int64_t i = 0; i < n; ++i) to[i] = at<int16_t>(from, i * step);
      return;
    case Format::i8:
      for (int64_t i = 0; i < n; ++i) to[i] = at<int8_t>(from, i * step);
      return;
    default:
      for (int64_t i = 0; i < n; ++i) {
        float f;
        load_f32(from + i * step * base::format_bytes(format), format, 1, &f, 1);
        to[i] = to_i32(f);
      }
  }
}

void store_f32(const float* from, std::byte* to, Format format, int64_t step, int64_t n) {
  switch (format) {
    case Format::dl16:
      if (step == 1)
        return base::f32_to_dl16(from, reinterpret_cast<uint16_t*>(to), static_cast<size_t>(n),
                                 base::Overflow::infinity);
      for (int64_t i = 0; i < n; ++i) at<uint16_t>(to, i * step) = base::f32_to_dl16(from[i], base::Overflow::infinity);
      return;
    case Format::f16:
      for (int64_t i = 0; i < n; ++i) at<uint16_t>(to, i * step) = base::f32_to_f16(from[i]);
      return;
    case Format::f32:
      if (step == 1) {
        std::memcpy(to, from, static_cast<size_t>(n) * 4);
        return;
      }
      for (int64_t i = 0; i < n; ++i) at<float>(to, i * step) = from[i];
      return;
    case Format::e4m3:
      for (int64_t i = 0; i < n; ++i) at<uint8_t>(to, i * step) = base::f32_to_e4m3(from[i]);
      return;
    case Format::e5m2:
      for (int64_t i = 0; i < n; ++i) at<uint8_t>(to, i * step) = base::f32_to_e5m2(from[i]);
      return;
    case Format::i32:
    case Format::u32:
      for (int64_t i = 0; i < n; ++i) at<int32_t>(to, i * step) = to_i32(from[i]);
      return;
    case Format::i16:
      for (int64_t i = 0; i < n; ++i) at<int16_t>(to, i * step) = static_cast<int16_t>(to_i32(from[i]));
      return;
    case Format::i8:
      for (int64_t i = 0; i < n; ++i) at<int8_t>(to, i * step) = static_cast<int8_t>(to_i32(from[i]));
      return;
  }
}

void store_i32(const int32_t* from, std::byte* to, Format format, int64_t step, int64_t n) {
  switch (format) {
    case Format::i32:
    case Format::u32:
      if (step == 1) {
        std::memcpy(to, from, static_cast<size_t>(n) * 4);
        return;
      }
      for (int64_t i = 0; i < n; ++i) at<int32_t>(to, i * step) = from[i];
      return;
    case Format::i16:
      for (int64_t i = 0; i < n; ++i) at<int16_t>(to, i * step) = static_cast<int16_t>(from[i]);
      return;
    case Format::i8:
      for (int64_t i = 0; i < n; ++i) at<int8_t>(to, i * step) = static_cast<int8_t>(from[i]);
      return;
    default:
      for (int64_t i = 0; i < n; ++i) {
        const auto f = static_cast<float>(from[i]);
        store_f32(&f, to + i * step * base::format_bytes(format), format, 1, 1);
      }
  }
}

}  // namespace spyre::card
