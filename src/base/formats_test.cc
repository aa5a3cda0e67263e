// The number formats, against an independent reference: tables of all values in double precision and a search in them.
#include "base/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace spyre::base {
namespace {

double dl16_value(int magnitude) {  // 0..0x7FFE
  return magnitude == 0 ? 0.0 : std::ldexp(1.0 + (magnitude & 511) / 512.0, (magnitude >> 9) - 31);
}

// Index of the value nearest to x >= 0 in an ascending table; a tie goes up (`away`) or to the even index.
int nearest(const std::vector<double>& table, double x, bool away) {
  const auto above = std::lower_bound(table.begin(), table.end(), x);
  if (above == table.end()) return static_cast<int>(table.size()) - 1;
  const int hi = static_cast<int>(above - table.begin());
  if (hi == 0) return 0;
  const double down = x - table[hi - 1], up = table[hi] - x;
  if (down != up) return down < up ? hi - 1 : hi;
  return away || hi % 2 == 0 ? hi : hi - 1;
}

// Values around every element of the table and around the middles between neighbours.
std::vector<float> probes(const std::vector<double>& table) {
  std::vector<float> out;
  const auto around = [&](double x) {
    const float f = static_cast<float>(x);
    for (float v : {f, std::nextafter(f, 0.0f), std::nextafter(f, INFINITY)}) {
      out.push_back(v);
      out.push_back(-v);
    }
  };
  for (size_t i = 0; i < table.size(); ++i) {
    around(table[i]);
    if (i) around((table[i - 1] + table[i]) / 2);
  }
  return out;
}

TEST(Dl16, EveryCodeHasItsValue) {
  for (int code = 0; code < 0x7FFF; ++code) {
    ASSERT_EQ(dl16_to_f32(static_cast<uint16_t>(code)), dl16_value(code)) << code;
    ASSERT_EQ(dl16_to_f32(static_cast<uint16_t>(code | 0x8000)), -dl16_value(code)) << code;
  }
  EXPECT_TRUE(std::signbit(dl16_to_f32(0x8000)));
  EXPECT_TRUE(std::isnan(dl16_to_f32(0x7FFF)));
  EXPECT_EQ(dl16_to_f32(0xFFFF), -INFINITY);
}

TEST(Dl16, RoundsToNearestAwayFromZeroAroundEveryCode) {
  std::vector<double> table;
  for (int code = 0; code < 0x7FFF; ++code) table.push_back(dl16_value(code));
  const double limit = std::ldexp(1.0 + 510.5 / 512, 32);  // from here on the nearest would be code 0x7FFF
  std::vector<float> values = probes(table);
  for (int e = 0; e < 256; ++e)  // every float32 exponent
    for (uint32_t f : {0u, 1u, 0x400000u, 0x7FFFFFu})
      if (e < 255) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(e) << 23 | f));
  for (float v : values) {
    const double m = std::fabs(static_cast<double>(v));
    const int sign = std::signbit(v) ? 0x8000 : 0;
    const int code = nearest(table, m, true);
    ASSERT_EQ(f32_to_dl16(v, Overflow::saturate), sign | code) << v;
    ASSERT_EQ(f32_to_dl16(v, Overflow::infinity), sign | (m >= limit ? 0x7FFF : code)) << v;
  }
}

TEST(Dl16, KeepsInfinitiesAndMergesNaN) {
  for (Overflow o : {Overflow::saturate, Overflow::infinity}) {
    EXPECT_EQ(f32_to_dl16(INFINITY, o), 0x7FFF);
    EXPECT_EQ(f32_to_dl16(-INFINITY, o), 0xFFFF);
    EXPECT_EQ(f32_to_dl16(NAN, o), 0x7FFF);
    EXPECT_EQ(f32_to_dl16(-NAN, o), 0x7FFF);
  }
}

struct Small {
  const char* name;
  int codes, mantissa, bias;  // codes: finite ones of one sign
  float (*decode)(int);
  int (*encode)(float);
  int sign, over;  // sign bit; the code that magnitudes past the last finite one's upper middle get
};

class SmallFormat : public testing::TestWithParam<Small> {};

TEST_P(SmallFormat, ValuesAndRoundingMatchTheDefinition) {
  const Small& s = GetParam();
  std::vector<double> table;
  for (int code = 0; code <= s.codes; ++code) {  // one code past the last: what overflow starts from
    const int e = code >> s.mantissa, f = code & ((1 << s.mantissa) - 1);
    const double unit = std::ldexp(1.0, -s.mantissa);
    table.push_back(e ? std::ldexp(1 + f * unit, e - s.bias) : std::ldexp(f * unit, 1 - s.bias));
    if (code == s.codes) break;
    ASSERT_EQ(s.decode(code), table.back()) << s.name << " " << code;
    ASSERT_EQ(s.decode(code | s.sign), -table.back()) << s.name << " " << code;
  }
  for (float v : probes(table)) {
    const int code = nearest(table, std::fabs(static_cast<double>(v)), false);
    ASSERT_EQ(s.encode(v), (std::signbit(v) ? s.sign : 0) | (code == s.codes ? s.over : code)) << s.name << " " << v;
  }
  for (float v : {std::numeric_limits<float>::max(), INFINITY}) EXPECT_EQ(s.encode(v), s.over);
  EXPECT_TRUE(std::isnan(s.decode(s.encode(NAN))));
}

INSTANTIATE_TEST_SUITE_P(
    All, SmallFormat,
    testing::Values(Small{"f16", 0x7C00, 10, 15, [](int c) { return f16_to_f32(static_cast<uint16_t>(c)); },
                          [](float v) { return static_cast<int>(f32_to_f16(v)); }, 0x8000, 0x7C00},
                    Small{"bf16", 0x7F80, 7, 127, [](int c) { return bf16_to_f32(static_cast<uint16_t>(c)); },
                          [](float v) { return static_cast<int>(f32_to_bf16(v)); }, 0x8000, 0x7F80},
                    Small{"e4m3", 0x7F, 3, 7, [](int c) { return e4m3_to_f32(static_cast<uint8_t>(c)); },
                          [](float v) { return static_cast<int>(f32_to_e4m3(v)); }, 0x80, 0x7E},
                    Small{"e5m2", 0x7C, 2, 15, [](int c) { return e5m2_to_f32(static_cast<uint8_t>(c)); },
                          [](float v) { return static_cast<int>(f32_to_e5m2(v)); }, 0x80, 0x7C}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Formats, NamesGoBothWays) {
  for (int i = 0; i < format_count; ++i) {
    const auto f = static_cast<Format>(i);
    EXPECT_EQ(format_from_name(format_name(f)), f);
    EXPECT_EQ(elements_per_stick(f) * format_bytes(f), stick_bytes);
  }
  EXPECT_THROW(format_from_name("fp16"), Error);
}

TEST(Formats, HostTypesWithoutADeviceFormatSayWhatToDo) {
  EXPECT_EQ(device_format(HostType::f16), Format::dl16);
  EXPECT_EQ(device_format(HostType::f16, true), Format::f16);
  EXPECT_EQ(device_format(HostType::i64), Format::i32);
  EXPECT_EQ(device_format(HostType::u8), Format::u32);
  for (HostType t : {HostType::f64, HostType::c64}) {
    try {
      device_format(t);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::user);
      EXPECT_NE(std::string(e.what()).find("float32"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace spyre::base
