// Names, sizes and the host type -> device format rule of base/formats.h.
#include <array>

#include "base/error.h"
#include "base/formats.h"

namespace spyre::base {
namespace {

constexpr std::array<std::string_view, format_count> format_names = {"dl16", "f16", "f32",  "i32", "u32",
                                                                     "i16",  "i8",  "e4m3", "e5m2"};

struct HostInfo {
  std::string_view name;
  int bytes;
};

constexpr std::array<HostInfo, 13> hosts = {{{"float16", 2},
                                             {"bfloat16", 2},
                                             {"float32", 4},
                                             {"bool", 1},
                                             {"uint8", 1},
                                             {"int8", 1},
                                             {"int16", 2},
                                             {"int32", 4},
                                             {"int64", 8},
                                             {"float8_e4m3fn", 1},
                                             {"float8_e5m2", 1},
                                             {"float64", 8},
                                             {"complex64", 8}}};

}  // namespace

std::string_view format_name(Format f) { return format_names[static_cast<int>(f)]; }

Format format_from_name(std::string_view name) {
  for (int i = 0; i < format_count; ++i)
    if (format_names[i] == name) return static_cast<Format>(i);
  fail(Fault::program, "'{}' is not a number format (dl16 f16 f32 i32 u32 i16 i8 e4m3 e5m2)", name);
}

int host_bytes(HostType t) { return hosts[static_cast<int>(t)].bytes; }
std::string_view host_name(HostType t) { return hosts[static_cast<int>(t)].name; }

Format device_format(HostType t, bool ieee) {
  switch (t) {
    case HostType::f16:
      return ieee ? Format::f16 : Format::dl16;
    case HostType::bf16:
    case HostType::b8:
      return Format::dl16;
    case HostType::f32:
      return Format::f32;
    case HostType::u8:
      return Format::u32;
    case HostType::i8:
      return Format::i8;
    case HostType::i16:
      return Format::i16;
    case HostType::i32:
    case HostType::i64:
      return Format::i32;
    case HostType::e4m3:
      return Format::e4m3;
    case HostType::e5m2:
      return Format::e5m2;
    case HostType::f64:
      fail(Fault::user, "spyre has no float64: cast to torch.float32 or torch.float16 first (x.float())");
    case HostType::c64:
      fail(Fault::user,
           "spyre has no complex64: use torch.view_as_real(x), which has real and imaginary parts as float32");
  }
  fail(Fault::user, "unknown host type {}", static_cast<int>(t));
}

}  // namespace spyre::base
