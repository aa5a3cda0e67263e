// Number formats: what a device element can hold, and bit-exact conversions to and from the host's types.
//
// Rules and their source: docs/design.md section 2 (the design's number rules), docs/hardware.md section 2 (DL16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spyre::base {

/// How the device stores one element. Names are those of the tile program's text form.
enum class Format : uint8_t { dl16, f16, f32, i32, u32, i16, i8, e4m3, e5m2 };
constexpr int format_count = 9;

/// Bytes of one element: 2 2 4 4 4 2 1 1 1.
constexpr int format_bytes(Format f) {
  constexpr uint64_t digits = 0x111244422;  // in order of Format, the first one last
  return static_cast<int>(digits >> (4 * static_cast<int>(f)) & 15);
}
constexpr int stick_bytes = 128;
/// Elements of one stick (128 bytes).
constexpr int elements_per_stick(Format f) { return stick_bytes / format_bytes(f); }
std::string_view format_name(Format f);
/// Throws Error(program) for a name that is no format.
Format format_from_name(std::string_view name);

/// The host's (torch's) element types. Complex and float64 have no device format: they exist to be named in errors.
enum class HostType : uint8_t { f16, bf16, f32, b8, u8, i8, i16, i32, i64, e4m3, e5m2, f64, c64 };
int host_bytes(HostType t);
std::string_view host_name(HostType t);  ///< torch's word: "float16", "bool", ...
/// The device format of a host type. SPYRE_NUMERICS=ieee (ieee = true) keeps float16 as IEEE half.
/// Throws Error(user) for f64 and c64 with the advice to cast.
Format device_format(HostType t, bool ieee = false);

/// DL16: sign 1, exponent 6 (bias 31), fraction 9, no subnormals; 0x7FFF and 0xFFFF are NaN/+Inf and -Inf.
enum class Overflow {
  saturate,  ///< finite values out of range become +-0x7FFE (host values, constants)
  infinity,  ///< they become 0x7FFF / 0xFFFF (arithmetic)
};
float dl16_to_f32(uint16_t code);  ///< exact; 0x7FFF is NaN, 0xFFFF is -Inf, 0x8000 is -0
uint16_t f32_to_dl16(float value, Overflow overflow);
float f16_to_f32(uint16_t code);
uint16_t f32_to_f16(float value);  ///< nearest, ties to even
float bf16_to_f32(uint16_t code);
uint16_t f32_to_bf16(float value);  ///< nearest, ties to even
float e4m3_to_f32(uint8_t code);    ///< torch.float8_e4m3fn
uint8_t f32_to_e4m3(float value);   ///< equals torch CPU bit for bit
float e5m2_to_f32(uint8_t code);
uint8_t f32_to_e5m2(float value);

/// Array forms, SIMD, equal to the scalar ones on every input; any n, any alignment.
void dl16_to_f32(const uint16_t* src, float* dst, size_t n);
void f32_to_dl16(const float* src, uint16_t* dst, size_t n, Overflow overflow);

/// Upload: n consecutive host elements to n consecutive device elements. An int64 outside int32 throws Error(user) that
/// names the value. A bool byte other than 0 counts as true.
void upload(HostType from, const void* src, Format to, void* dst, size_t n);
/// Download: the reverse. DL16 magnitudes at 65536 download to float16 as 65504, larger ones as Inf.
void download(Format from, const void* src, HostType to, void* dst, size_t n);

}  // namespace spyre::base
