// Upload and download: which kernel serves which pair of host type and device format.
#include <algorithm>
#include <cstring>

#include "base/convert_simd.h"
#include "base/error.h"
#include "base/formats.h"

namespace spyre::base {

const ConvertTable& convert_table(Isa isa) { return SPYRE_SIMD_TABLE(isa, convert_table); }

namespace {

const ConvertTable& table() {
  static const ConvertTable& chosen = convert_table(host_isa());
  return chosen;
}

// A host type or device format that holds real numbers, for the pairs that go through float32.
enum class Real { dl16, f16, bf16, f32, b8, e4m3, e5m2, none };

Real real_of(HostType t) {
  switch (t) {
    case HostType::f16:
      return Real::f16;
    case HostType::bf16:
      return Real::bf16;
    case HostType::f32:
      return Real::f32;
    case HostType::b8:
      return Real::b8;
    case HostType::e4m3:
      return Real::e4m3;
    case HostType::e5m2:
      return Real::e5m2;
    default:
      return Real::none;
  }
}

Real real_of(Format f) {
  switch (f) {
    case Format::dl16:
      return Real::dl16;
    case Format::f16:
      return Real::f16;
    case Format::f32:
      return Real::f32;
    case Format::e4m3:
      return Real::e4m3;
    case Format::e5m2:
      return Real::e5m2;
    default:
      return Real::none;
  }
}

int bytes_of(Real r) {
  switch (r) {
    case Real::f32:
      return 4;
    case Real::b8:
    case Real::e4m3:
    case Real::e5m2:
      return 1;
    default:
      return 2;
  }
}

void to_f32(Real from, const void* src, float* dst, size_t n) {
  const auto* bytes = static_cast<const uint8_t*>(src);
  const auto* halves = static_cast<const uint16_t*>(src);
  switch (from) {
    case Real::dl16:
      return table().dl16_to_f32(halves, dst, n);
    case Real::f16:
      return table().f16_to_f32(halves, dst, n);
    case Real::bf16:
      return table().bf16_to_f32(halves, dst, n);
    case Real::b8:
      return table().b8_to_f32(bytes, dst, n);
    case Real::e4m3:
      return table().e4m3_to_f32(bytes, dst, n);
    case Real::e5m2:
      return table().e5m2_to_f32(bytes, dst, n);
    case Real::f32:
      std::memcpy(dst, src, n * 4);
      return;
    case Real::none:
      return;
  }
}

void from_f32(Real to, const float* src, void* dst, size_t n) {
  auto* bytes = static_cast<uint8_t*>(dst);
  auto* halves = static_cast<uint16_t*>(dst);
  switch (to) {
    case Real::dl16:
      return table().f32_to_dl16_saturate(src, halves, n);
    case Real::f16:
      return table().f32_to_f16(src, halves, n);
    case Real::bf16:
      return table().f32_to_bf16(src, halves, n);
    case Real::b8:
      return table().f32_to_b8(src, bytes, n);
    case Real::e4m3:
      return table().f32_to_e4m3(src, bytes, n);
    case Real::e5m2:
      return table().f32_to_e5m2(src, bytes, n);
    case Real::f32:
      std::memcpy(dst, src, n * 4);
      return;
    case Real::none:
      return;
  }
}

// Every pair of two real types; those with a kernel of their own first.
void convert_real(Real from, const void* src, Real to, void* dst, size_t n) {
  const auto* halves = static_cast<const uint16_t*>(src);
  auto* out = static_cast<uint16_t*>(dst);
  if (from == to) return void(std::memcpy(dst, src, n * bytes_of(from)));
  if (to == Real::dl16) {
    if (from == Real::f16) return table().f16_to_dl16(halves, out, n);
    if (from == Real::bf16) return table().bf16_to_dl16(halves, out, n);
    if (from == Real::b8) return table().b8_to_dl16(static_cast<const uint8_t*>(src), out, n);
  }
  if (from == Real::dl16) {
    if (to == Real::f16) return table().dl16_to_f16(halves, out, n);
    if (to == Real::bf16) return table().dl16_to_bf16(halves, out, n);
    if (to == Real::b8) return table().dl16_to_b8(halves, static_cast<uint8_t*>(dst), n);
  }
  if (from == Real::f32) return from_f32(to, static_cast<const float*>(src), dst, n);
  if (to == Real::f32) return to_f32(from, src, static_cast<float*>(dst), n);
  constexpr size_t block = 512;
  float values[block];
  for (size_t i = 0; i < n; i += block) {
    const size_t count = std::min(block, n - i);
    to_f32(from, static_cast<const char*>(src) + i * bytes_of(from), values, count);
    from_f32(to, values, static_cast<char*>(dst) + i * bytes_of(to), count);
  }
}

void upload_i64(const int64_t* src, int32_t* dst, size_t n) {
  const size_t bad = table().i64_to_i32(src, dst, n);
  if (bad < n)
    fail(Fault::user,
         "int64 value {} (element {}) does not fit: spyre holds int64 as int32; keep such a tensor on the CPU or "
         "rescale it",
         src[bad], bad);
}

// The integer pairs, which copy or change width; false for a pair that isn't one of them.
bool upload_integers(HostType from, const void* src, Format to, void* dst, size_t n) {
  const auto same = [&](HostType t, Format f) { return from == t && to == f; };
  if (same(HostType::i32, Format::i32) || same(HostType::i16, Format::i16) || same(HostType::i8, Format::i8))
    return std::memcpy(dst, src, n * host_bytes(from)), true;
  if (same(HostType::i64, Format::i32))
    return upload_i64(static_cast<const int64_t*>(src), static_cast<int32_t*>(dst), n), true;
  if (same(HostType::u8, Format::u32))
    return table().u8_to_u32(static_cast<const uint8_t*>(src), static_cast<uint32_t*>(dst), n), true;
  return false;
}

bool download_integers(Format from, const void* src, HostType to, void* dst, size_t n) {
  const auto same = [&](Format f, HostType t) { return from == f && to == t; };
  if (same(Format::i32, HostType::i32) || same(Format::i16, HostType::i16) || same(Format::i8, HostType::i8))
    return std::memcpy(dst, src, n * host_bytes(to)), true;
  if (same(Format::i32, HostType::i64))
    return table().i32_to_i64(static_cast<const int32_t*>(src), static_cast<int64_t*>(dst), n), true;
  if (same(Format::u32, HostType::u8))
    return table().u32_to_u8(static_cast<const uint32_t*>(src), static_cast<uint8_t*>(dst), n), true;
  return false;
}

}  // namespace

void dl16_to_f32(const uint16_t* src, float* dst, size_t n) { table().dl16_to_f32(src, dst, n); }

void f32_to_dl16(const float* src, uint16_t* dst, size_t n, Overflow overflow) {
  if (overflow == Overflow::saturate)
    table().f32_to_dl16_saturate(src, dst, n);
  else
    table().f32_to_dl16_infinity(src, dst, n);
}

void upload(HostType from, const void* src, Format to, void* dst, size_t n) {
  if (n == 0 || upload_integers(from, src, to, dst, n)) return;
  const Real a = real_of(from), b = real_of(to);
  if (a == Real::none || b == Real::none)
    fail(Fault::user, "a {} tensor cannot be stored as {}: cast it first", host_name(from), format_name(to));
  convert_real(a, src, b, dst, n);
}

void download(Format from, const void* src, HostType to, void* dst, size_t n) {
  if (n == 0 || download_integers(from, src, to, dst, n)) return;
  const Real a = real_of(from), b = real_of(to);
  if (a == Real::none || b == Real::none)
    fail(Fault::user, "{} data cannot be read as {}: cast it on the device first", format_name(from), host_name(to));
  convert_real(a, src, b, dst, n);
}

}  // namespace spyre::base
