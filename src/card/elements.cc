#include "card/elements.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace spyre::card {

namespace {

/// n elements that lie `step` apart, each converted by `fn`.
template <typename T, typename To, typename Fn>
void read(const std::byte* from, int64_t step, To* to, int64_t n, Fn fn) {
  const T* p = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < n; ++i) to[i] = fn(p[i * step]);
}
template <typename T, typename From, typename Fn>
void write(const From* from, std::byte* to, int64_t step, int64_t n, Fn fn) {
  T* p = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) p[i * step] = fn(from[i]);
}

/// The conversions that keep the value or its low bits.
template <typename T>
constexpr auto as = [](auto x) { return static_cast<T>(x); };
template <typename T>
constexpr auto truncated = [](float x) { return static_cast<T>(to_i32(x)); };

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
      return read<uint16_t>(from, step, to, n, [](uint16_t x) { return base::dl16_to_f32(x); });
    case Format::f16:
      return read<uint16_t>(from, step, to, n, [](uint16_t x) { return base::f16_to_f32(x); });
    case Format::f32:
      if (step != 1) return read<float>(from, step, to, n, as<float>);
      std::memcpy(to, from, static_cast<size_t>(n) * 4);
      return;
    case Format::e4m3:
      return read<uint8_t>(from, step, to, n, [](uint8_t x) { return base::e4m3_to_f32(x); });
    case Format::e5m2:
      return read<uint8_t>(from, step, to, n, [](uint8_t x) { return base::e5m2_to_f32(x); });
    case Format::i32:
      return read<int32_t>(from, step, to, n, as<float>);
    case Format::u32:
      return read<uint32_t>(from, step, to, n, as<float>);
    case Format::i16:
      return read<int16_t>(from, step, to, n, as<float>);
    case Format::i8:
      return read<int8_t>(from, step, to, n, as<float>);
  }
}

void load_i32(const std::byte* from, Format format, int64_t step, int32_t* to, int64_t n) {
  switch (format) {
    case Format::i32:
    case Format::u32:
      if (step != 1) return read<int32_t>(from, step, to, n, as<int32_t>);
      std::memcpy(to, from, static_cast<size_t>(n) * 4);
      return;
    case Format::i16:
      return read<int16_t>(from, step, to, n, as<int32_t>);
    case Format::i8:
      return read<int8_t>(from, step, to, n, as<int32_t>);
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
      return write<uint16_t>(from, to, step, n, [](float x) { return base::f32_to_dl16(x, base::Overflow::infinity); });
    case Format::f16:
      return write<uint16_t>(from, to, step, n, [](float x) { return base::f32_to_f16(x); });
    case Format::f32:
      if (step != 1) return write<float>(from, to, step, n, as<float>);
      std::memcpy(to, from, static_cast<size_t>(n) * 4);
      return;
    case Format::e4m3:
      return write<uint8_t>(from, to, step, n, [](float x) { return base::f32_to_e4m3(x); });
    case Format::e5m2:
      return write<uint8_t>(from, to, step, n, [](float x) { return base::f32_to_e5m2(x); });
    case Format::i32:
    case Format::u32:
      return write<int32_t>(from, to, step, n, truncated<int32_t>);
    case Format::i16:
      return write<int16_t>(from, to, step, n, truncated<int16_t>);
    case Format::i8:
      return write<int8_t>(from, to, step, n, truncated<int8_t>);
  }
}

void store_i32(const int32_t* from, std::byte* to, Format format, int64_t step, int64_t n) {
  switch (format) {
    case Format::i32:
    case Format::u32:
      if (step != 1) return write<int32_t>(from, to, step, n, as<int32_t>);
      std::memcpy(to, from, static_cast<size_t>(n) * 4);
      return;
    case Format::i16:
      return write<int16_t>(from, to, step, n, as<int16_t>);
    case Format::i8:
      return write<int8_t>(from, to, step, n, as<int8_t>);
    default:
      for (int64_t i = 0; i < n; ++i) {
        const auto f = static_cast<float>(from[i]);
        store_f32(&f, to + i * step * base::format_bytes(format), format, 1, 1);
      }
  }
}

}  // namespace spyre::card
