// The array conversions of every instruction set equal the scalar ones, on every code and around every float32
// boundary.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/convert_simd.h"
#include "base/error.h"
#include "base/formats.h"

namespace spyre::base {
namespace {

// Every sign, exponent and leading 7 bits of the fraction with tails at, next to and between the ties of every format.
std::vector<float> boundary_values() {
  std::vector<float> out;
  out.reserve(65536 * 8 * 6);
  for (uint32_t high = 0; high < 65536; ++high)
    for (uint32_t top = 0; top < 8; ++top)
      for (uint32_t tail : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu})
        out.push_back(std::bit_cast<float>(high << 16 | top << 13 | tail));
  return out;
}

template <typename T>
std::vector<T> all_codes() {
  std::vector<T> codes(size_t{1} << 8 * sizeof(T));
  std::iota(codes.begin(), codes.end(), T{0});
  return codes;
}

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
uint32_t bits(uint16_t v) { return v; }
uint32_t bits(uint8_t v) { return v; }

template <typename S, typename D>
void expect_same(Isa isa, const char* what, void (*kernel)(const S*, D*, size_t), const std::vector<S>& src,
                 const std::function<D(S)>& scalar) {
  std::vector<D> dst(src.size() + 1, D{});
  std::memset(static_cast<void*>(&dst.back()), 0x5A, sizeof(D));
  const D guard = dst.back();
  kernel(src.data(), dst.data(), src.size());
  for (size_t i = 0; i < src.size(); ++i)
    ASSERT_EQ(bits(dst[i]), bits(scalar(src[i])))
        << what << " " << isa_name(isa) << " of 0x" << std::hex << bits(src[i]);
  ASSERT_EQ(bits(dst.back()), bits(guard)) << what << " writes past the end";
}

class EveryIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_available(GetParam())) GTEST_SKIP() << "not on this machine";
  }
};

uint16_t f16_of_dl16(uint16_t code) {
  if ((code & 0x7FFF) == 0x5E00) return static_cast<uint16_t>((code & 0x8000) | 0x7BFF);
  return f32_to_f16(dl16_to_f32(code));
}
uint16_t dl16_of_f16(uint16_t code) { return f32_to_dl16(f16_to_f32(code), Overflow::saturate); }

TEST_P(EveryIsa, SixteenAndEightBitCodesConvertAsTheScalars) {
  const Isa isa = GetParam();
  const ConvertTable& t = convert_table(isa);
  const auto halves = all_codes<uint16_t>();
  const auto bytes = all_codes<uint8_t>();
  expect_same<uint16_t, float>(isa, "dl16_to_f32", t.dl16_to_f32, halves, [](uint16_t c) { return dl16_to_f32(c); });
  expect_same<uint16_t, float>(isa, "f16_to_f32", t.f16_to_f32, halves, f16_to_f32);
  expect_same<uint16_t, float>(isa, "bf16_to_f32", t.bf16_to_f32, halves, bf16_to_f32);
  expect_same<uint8_t, float>(isa, "e4m3_to_f32", t.e4m3_to_f32, bytes, e4m3_to_f32);
  expect_same<uint8_t, float>(isa, "e5m2_to_f32", t.e5m2_to_f32, bytes, e5m2_to_f32);
  expect_same<uint8_t, float>(isa, "b8_to_f32", t.b8_to_f32, bytes, [](uint8_t b) { return b ? 1.0f : 0.0f; });
  expect_same<uint16_t, uint16_t>(isa, "f16_to_dl16", t.f16_to_dl16, halves, dl16_of_f16);
  expect_same<uint16_t, uint16_t>(isa, "dl16_to_f16", t.dl16_to_f16, halves, f16_of_dl16);
  expect_same<uint16_t, uint16_t>(isa, "bf16_to_dl16", t.bf16_to_dl16, halves,
                                  [](uint16_t c) { return f32_to_dl16(bf16_to_f32(c), Overflow::saturate); });
  expect_same<uint16_t, uint16_t>(isa, "dl16_to_bf16", t.dl16_to_bf16, halves,
                                  [](uint16_t c) { return f32_to_bf16(dl16_to_f32(c)); });
  expect_same<uint8_t, uint16_t>(isa, "b8_to_dl16", t.b8_to_dl16, bytes,
                                 [](uint8_t b) { return static_cast<uint16_t>(b ? 0x3E00 : 0); });
  expect_same<uint16_t, uint8_t>(isa, "dl16_to_b8", t.dl16_to_b8, halves,
                                 [](uint16_t c) { return static_cast<uint8_t>((c & 0x7FFF) != 0); });
}

TEST_P(EveryIsa, FastPathsOfHalvesAgreeWhateverTheNeighbours) {
  // Codes in another order, so that ordinary and special ones share a vector.
  std::vector<uint16_t> mixed(65536);
  for (uint32_t i = 0; i < 65536; ++i) mixed[i] = static_cast<uint16_t>(i * 40503u);
  std::vector<uint16_t> normal;  // and strips of ordinary codes only
  for (uint16_t c : all_codes<uint16_t>())
    if ((c & 0x7FFF) == 0 || ((c & 0x7FFF) >= 0x2200 && (c & 0x7FFF) < 0x5E00)) normal.push_back(c);
  const ConvertTable& t = convert_table(GetParam());
  for (const auto* src : {&mixed, &normal}) {
    expect_same<uint16_t, uint16_t>(GetParam(), "f16_to_dl16", t.f16_to_dl16, *src, dl16_of_f16);
    expect_same<uint16_t, uint16_t>(GetParam(), "dl16_to_f16", t.dl16_to_f16, *src, f16_of_dl16);
  }
}

TEST_P(EveryIsa, FloatsRoundAsTheScalars) {
  const Isa isa = GetParam();
  const ConvertTable& t = convert_table(isa);
  const auto values = boundary_values();
  expect_same<float, uint16_t>(isa, "f32_to_dl16_saturate", t.f32_to_dl16_saturate, values,
                               [](float v) { return f32_to_dl16(v, Overflow::saturate); });
  expect_same<float, uint16_t>(isa, "f32_to_dl16_infinity", t.f32_to_dl16_infinity, values,
                               [](float v) { return f32_to_dl16(v, Overflow::infinity); });
  expect_same<float, uint16_t>(isa, "f32_to_f16", t.f32_to_f16, values, f32_to_f16);
  expect_same<float, uint16_t>(isa, "f32_to_bf16", t.f32_to_bf16, values, f32_to_bf16);
  expect_same<float, uint8_t>(isa, "f32_to_e4m3", t.f32_to_e4m3, values, f32_to_e4m3);
  expect_same<float, uint8_t>(isa, "f32_to_e5m2", t.f32_to_e5m2, values, f32_to_e5m2);
  expect_same<float, uint8_t>(isa, "f32_to_b8", t.f32_to_b8, values,
                              [](float v) { return static_cast<uint8_t>(v != 0); });
}

/// One comparison tells for a block whether all of it is ordinary: no neighbour may answer for values at the limits.
TEST_P(EveryIsa, BlocksOfOneValueRoundAsTheScalars) {
  const ConvertTable& t = convert_table(GetParam());
  std::vector<uint32_t> limits{0, 1, 0x007FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF};
  for (const uint32_t around : {0x2F804000u, 0x30000000u, 0x30004000u, 0x4FFF8000u, 0x4FFFC000u, 0x50000000u})
    for (const uint32_t step : {0x1FFFu, 0x2000u, 0x2001u, 1u, 0u})
      for (const uint32_t bits : {around - step, around + step}) limits.push_back(bits);
  for (const uint32_t magnitude : limits)
    for (const uint32_t bits : {magnitude, magnitude | 0x80000000u}) {
      const std::vector<float> same(300, std::bit_cast<float>(bits));
      std::vector<uint16_t> codes(same.size());
      for (const auto& [convert, overflow] : {std::pair{t.f32_to_dl16_saturate, Overflow::saturate},
                                              std::pair{t.f32_to_dl16_infinity, Overflow::infinity}}) {
        convert(same.data(), codes.data(), same.size());
        for (const uint16_t code : codes) ASSERT_EQ(code, f32_to_dl16(same[0], overflow)) << std::hex << bits;
      }
    }
}

TEST_P(EveryIsa, AnyLengthAndAlignment) {
  const ConvertTable& t = convert_table(GetParam());
  std::vector<uint16_t> codes(600), back(600);
  std::vector<float> values(600);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i * 2654435761u >> 7 & 0xBFFF);
  for (size_t n = 0; n < 300; n += n < 140 ? 1 : 37)
    for (size_t shift : {0, 1, 3}) {
      std::fill(values.begin(), values.end(), -7.0f);
      t.dl16_to_f32(codes.data() + shift, values.data() + shift, n);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(values[i], i >= shift && i < shift + n ? dl16_to_f32(codes[i]) : -7.0f) << n << " " << i;
      std::fill(back.begin(), back.end(), 0x1234);
      t.dl16_to_f16(codes.data() + shift, back.data() + shift, n);
      for (size_t i = 0; i < back.size(); ++i)
        ASSERT_EQ(back[i], i >= shift && i < shift + n ? f16_of_dl16(codes[i]) : 0x1234) << n << " " << i;
    }
}

TEST_P(EveryIsa, Int64OutsideInt32IsFound) {
  const ConvertTable& t = convert_table(GetParam());
  std::vector<int64_t> src(1000, INT32_MAX);
  std::vector<int32_t> dst(1000);
  src[3] = INT32_MIN;
  EXPECT_EQ(t.i64_to_i32(src.data(), dst.data(), src.size()), src.size());
  EXPECT_EQ(dst[3], INT32_MIN);
  for (int64_t bad : {int64_t{INT32_MAX} + 1, int64_t{INT32_MIN} - 1, INT64_MAX, INT64_MIN, int64_t{1} << 32})
    for (size_t at : {size_t{0}, size_t{255}, size_t{256}, size_t{999}}) {
      const int64_t before = std::exchange(src[at], bad);
      EXPECT_EQ(t.i64_to_i32(src.data(), dst.data(), src.size()), at) << bad;
      src[at] = before;
    }
}

INSTANTIATE_TEST_SUITE_P(All, EveryIsa, testing::Values(Isa::baseline, Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST(Upload, Int64OutsideInt32NamesTheValue) {
  const int64_t src[3] = {1, 2, 4294967297};
  int32_t dst[3];
  try {
    upload(HostType::i64, src, Format::i32, dst, 3);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::user);
    EXPECT_NE(std::string(e.what()).find("4294967297"), std::string::npos) << e.what();
  }
}

TEST(Upload, LargestHalfSurvivesTheRoundTrip) {
  std::vector<uint16_t> src = {0x7BFF, 0xFBFF, 0x7BFE, 0x8000, 0x0001, 0x03FF, 0xFC00}, device(7), back(7);
  upload(HostType::f16, src.data(), Format::dl16, device.data(), 7);
  EXPECT_EQ(dl16_to_f32(device[0]), 65536.0f);
  download(Format::dl16, device.data(), HostType::f16, back.data(), 7);
  EXPECT_EQ(back, (std::vector<uint16_t>{0x7BFF, 0xFBFF, 0x7BFE, 0x8000, 0x0001, 0x03FF, 0xFC00}));
}

TEST(Upload, AnyBoolByteIsTrue) {
  const uint8_t src[4] = {0, 1, 2, 255};
  uint16_t device[4];
  upload(HostType::b8, src, Format::dl16, device, 4);
  uint8_t back[4];
  download(Format::dl16, device, HostType::b8, back, 4);
  EXPECT_EQ(std::vector<int>(back, back + 4), (std::vector<int>{0, 1, 1, 1}));
}

// A host element or device element as a double, and the reverse, through the scalar conversions only.
const HostType host_types[] = {HostType::f16,  HostType::bf16, HostType::f32, HostType::b8,  HostType::u8,
                               HostType::i8,   HostType::i16,  HostType::i32, HostType::i64, HostType::e4m3,
                               HostType::e5m2, HostType::f64,  HostType::c64};

bool is_real(HostType t) {
  return t == HostType::f16 || t == HostType::bf16 || t == HostType::f32 || t == HostType::b8 || t == HostType::e4m3 ||
         t == HostType::e5m2;
}
bool is_real(Format f) {
  return f == Format::dl16 || f == Format::f16 || f == Format::f32 || f == Format::e4m3 || f == Format::e5m2;
}

template <typename T>
T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float real_value(HostType t, const char* p) {
  switch (t) {
    case HostType::f16:
      return f16_to_f32(read<uint16_t>(p));
    case HostType::bf16:
      return bf16_to_f32(read<uint16_t>(p));
    case HostType::f32:
      return read<float>(p);
    case HostType::b8:
      return *p ? 1.0f : 0.0f;
    case HostType::e4m3:
      return e4m3_to_f32(read<uint8_t>(p));
    default:
      return e5m2_to_f32(read<uint8_t>(p));
  }
}
float real_value(Format f, const char* p) {
  switch (f) {
    case Format::dl16:
      return dl16_to_f32(read<uint16_t>(p));
    case Format::f16:
      return f16_to_f32(read<uint16_t>(p));
    case Format::f32:
      return read<float>(p);
    case Format::e4m3:
      return e4m3_to_f32(read<uint8_t>(p));
    default:
      return e5m2_to_f32(read<uint8_t>(p));
  }
}

TEST(Upload, EveryPairOfHostTypeAndFormatConvertsOrRefuses) {
  constexpr size_t n = 1000;
  std::vector<char> src(n * 8), dst(n * 8), back(n * 8);
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<char>(i * 2654435761u >> 13);
  for (HostType t : host_types)
    for (int i = 0; i < format_count; ++i) {
      const auto f = static_cast<Format>(i);
      SCOPED_TRACE(std::string(host_name(t)) + " " + std::string(format_name(f)));
      if (!is_real(t) || !is_real(f)) {
        const bool own = t != HostType::f64 && t != HostType::c64 && device_format(t) == f;
        if (!own) {
          EXPECT_THROW(upload(t, src.data(), f, dst.data(), n), Error);
          EXPECT_THROW(download(f, src.data(), t, dst.data(), n), Error);
          continue;
        }
        std::vector<char> small = src;
        if (t == HostType::i64)
          for (size_t e = 0; e < n; ++e) {
            const int64_t v = read<int32_t>(src.data() + 8 * e);
            std::memcpy(small.data() + 8 * e, &v, 8);
          }
        upload(t, small.data(), f, dst.data(), n);
        download(f, dst.data(), t, back.data(), n);
        EXPECT_EQ(std::memcmp(small.data(), back.data(), n * host_bytes(t)), 0);
        continue;
      }
      upload(t, src.data(), f, dst.data(), n);
      for (size_t e = 0; e < n; ++e) {
        const float v = real_value(t, src.data() + e * host_bytes(t));
        const float got = real_value(f, dst.data() + e * format_bytes(f));
        float want = v;
        if (f == Format::dl16) want = dl16_to_f32(f32_to_dl16(v, Overflow::saturate));
        if (f == Format::f16) want = f16_to_f32(f32_to_f16(v));
        if (f == Format::e4m3) want = e4m3_to_f32(f32_to_e4m3(v));
        if (f == Format::e5m2) want = e5m2_to_f32(f32_to_e5m2(v));
        ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << e << " " << v << " " << got << " " << want;
      }
      download(f, src.data(), t, dst.data(), n);
      for (size_t e = 0; e < n; ++e) {
        const float v = real_value(f, src.data() + e * format_bytes(f));
        const float got = real_value(t, dst.data() + e * host_bytes(t));
        float want = v;
        if (t == HostType::f16)
          want = f == Format::dl16 && std::fabs(v) == 65536 ? std::copysign(65504.0f, v) : f16_to_f32(f32_to_f16(v));
        if (t == HostType::bf16) want = bf16_to_f32(f32_to_bf16(v));
        if (t == HostType::b8) want = v != 0;
        if (t == HostType::e4m3) want = e4m3_to_f32(f32_to_e4m3(v));
        if (t == HostType::e5m2) want = e5m2_to_f32(f32_to_e5m2(v));
        ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << e << " " << v << " " << got << " " << want;
      }
    }
}

}  // namespace
}  // namespace spyre::base
