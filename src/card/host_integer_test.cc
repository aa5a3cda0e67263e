// Elementwise int32 kernels, casts, selections and the random generator, of every instruction set, against exact
// arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "card/host_vector.h"
#include "card/host_vector_simd.h"

namespace spyre::card::host {
namespace {

using base::Isa;
constexpr int32_t lowest = std::numeric_limits<int32_t>::min(), highest = std::numeric_limits<int32_t>::max();

class HostInteger : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!base::isa_available(GetParam())) GTEST_SKIP() << "not on this machine";
  }
  const IntegerTable& table() const { return integer_table(GetParam()); }
};

std::vector<int32_t> samples(size_t count, uint32_t seed) {
  std::vector<int32_t> out = {0,  1,      -1,      2,          -2,          7,     -7,    31,     32,
                              33, lowest, highest, lowest + 1, highest - 1, 46340, 46341, -46341, 65536};
  std::mt19937 random(seed);
  while (out.size() < count) {
    const auto v = static_cast<int32_t>(random());
    out.push_back(random() % 2 ? v : v >> (random() % 32));
  }
  return out;
}

struct Exact {
  int64_t value;
  unsigned status = 0;
};
Exact fits(int64_t v) { return {v, v != static_cast<int32_t>(v) ? i32_overflow : 0u}; }
int64_t floor_divide(int64_t a, int64_t b) {
  return static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));  // exact: 32-bit operands
}

Exact exact(I32Binary op, int64_t a, int64_t b) {
  switch (op) {
    case I32Binary::add:
      return fits(a + b);
    case I32Binary::sub:
      return fits(a - b);
    case I32Binary::mul:
      return fits(a * b);
    case I32Binary::div:
      return b ? fits(a / b) : Exact{0, i32_zero_division};
    case I32Binary::floor_div:
      return b ? fits(floor_divide(a, b)) : Exact{0, i32_zero_division};
    case I32Binary::remainder:
      return b ? fits(a - floor_divide(a, b) * b) : Exact{0, i32_zero_division};
    case I32Binary::min:
      return {std::min(a, b)};
    case I32Binary::max:
      return {std::max(a, b)};
    case I32Binary::bit_and:
      return {a & b};
    case I32Binary::bit_or:
      return {a | b};
    case I32Binary::bit_xor:
      return {a ^ b};
    case I32Binary::shl:
      return b < 0 || b > 31 ? Exact{0} : fits(static_cast<int64_t>(static_cast<uint64_t>(a) << b));
    case I32Binary::shr:
      return {a >> (b < 0 || b > 31 ? 31 : b)};
  }
  return {0};
}

TEST_P(HostInteger, BinaryOperationsWrapAndReport) {
  const auto a = samples(333, 1);
  auto b = samples(333, 2);
  for (int o = 0; o < i32_binary_count; ++o) {
    const auto op = static_cast<I32Binary>(o);
    for (int rotation = 0; rotation < 40; ++rotation) {
      std::rotate(b.begin(), b.begin() + 1, b.end());
      for (Splat s = 0; s < 4; ++s)
        for (size_t n : {size_t{0}, size_t{1}, size_t{17}, a.size()}) {
          std::vector<int32_t> out = a;
          const unsigned got = table().binary[o](out.data(), out.data(), b.data(), n, s);  // in place
          unsigned want = 0;
          for (size_t i = 0; i < n; ++i) {
            const Exact e = exact(op, a[s & splat_first ? 0 : i], b[s & splat_second ? 0 : i]);
            want |= e.status;
            ASSERT_EQ(out[i], static_cast<int32_t>(e.value)) << o << " " << a[i] << " " << b[i] << " " << s;
          }
          ASSERT_EQ(got, want) << o;
          ASSERT_TRUE(std::equal(out.begin() + static_cast<long>(n), out.end(), a.begin() + static_cast<long>(n)));
        }
    }
  }
}

TEST_P(HostInteger, OverflowOfOneLaneIsReported) {
  for (size_t at : {size_t{0}, size_t{15}, size_t{16}, size_t{100}}) {
    std::vector<int32_t> a(101, 5), b(101, 7), out(101);
    const auto add = table().binary[static_cast<int>(I32Binary::add)];
    EXPECT_EQ(add(out.data(), a.data(), b.data(), a.size(), splat_none), i32_exact);
    a[at] = highest - 6;
    EXPECT_EQ(add(out.data(), a.data(), b.data(), a.size(), splat_none), i32_overflow);
    EXPECT_EQ(out[at], lowest);
  }
}

TEST_P(HostInteger, UnaryOperations) {
  const auto a = samples(200, 3);
  std::vector<int32_t> y(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t x = a[i];
    const Exact want[i32_unary_count] = {fits(-x), fits(std::abs(x)), fits(x * x), {(x > 0) - (x < 0)}, {~x}};
    for (int o = 0; o < i32_unary_count; ++o) {
      EXPECT_EQ(table().unary[o](&y[i], &a[i], 1), want[o].status) << o << " " << x;
      EXPECT_EQ(y[i], static_cast<int32_t>(want[o].value)) << o << " " << x;
    }
  }
  table().unary[static_cast<int>(I32Unary::bit_not)](y.data(), a.data(), a.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(y[i], ~a[i]);
}

TEST_P(HostInteger, Comparisons) {
  const auto a = samples(100, 4);
  auto b = a;
  std::reverse(b.begin(), b.end());
  for (int c = 0; c < comparison_count; ++c) {
    std::vector<int32_t> m(a.size());
    table().compare[c](m.data(), a.data(), b.data(), a.size(), splat_none);
    for (size_t i = 0; i < a.size(); ++i) {
      const bool want[] = {a[i]<b[i], a[i] <= b[i], a[i]> b[i], a[i] >= b[i], a[i] == b[i], a[i] != b[i]};
      EXPECT_EQ(m[i], want[c] ? -1 : 0);
    }
  }
}

TEST_P(HostInteger, SelectTakesEverySplat) {
  const std::vector<int32_t> m = {-1, 0, 0, -1, -1}, a = {1, 2, 3, 4, 5}, b = {-1, -2, -3, -4, -5};
  for (Splat s = 0; s < 8; ++s) {
    std::vector<int32_t> y(5);
    table().select(y.data(), m.data(), a.data(), b.data(), 5, s);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(y[i], m[s & 1 ? 0 : i] ? a[s & 2 ? 0 : i] : b[s & 4 ? 0 : i]);
  }
}

TEST_P(HostInteger, CastsFromFloatTruncateAndReport) {
  const std::vector<float> in = {0.9f, -0.9f, -1.5f, 2147483520.0f, -2147483648.0f, 16777217.0f};
  const std::vector<int32_t> want = {0, 0, -1, 2147483520, lowest, 16777216};
  std::vector<int32_t> out(in.size());
  EXPECT_EQ(table().cast_f32_i32(out.data(), in.data(), in.size()), i32_exact);
  EXPECT_EQ(out, want);
  for (float bad :
       {2147483648.0f, -2147483904.0f, 1e30f, -1e30f, std::nanf(""), std::numeric_limits<float>::infinity()})
    for (size_t at : {size_t{0}, size_t{19}}) {
      std::vector<float> v(20, 3.0f);
      std::vector<int32_t> y(20);
      v[at] = bad;
      EXPECT_EQ(table().cast_f32_i32(y.data(), v.data(), v.size()), i32_overflow) << bad;
      EXPECT_EQ(y[at], lowest);
      EXPECT_EQ(y[1], 3);
    }
}

TEST_P(HostInteger, OtherCasts) {
  const auto a = samples(100, 5);
  std::vector<float> f(a.size());
  std::vector<int32_t> m(a.size()), back(a.size());
  table().cast_i32_f32(f.data(), a.data(), a.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(f[i], static_cast<float>(a[i]));
  table().cast_i32_mask(m.data(), a.data(), a.size());
  table().cast_mask_i32(back.data(), m.data(), a.size());
  table().cast_mask_f32(f.data(), m.data(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(m[i], a[i] ? -1 : 0);
    EXPECT_EQ(back[i], a[i] != 0);
    EXPECT_EQ(f[i], a[i] != 0);
  }
  const float x[4] = {0.0f, -0.0f, std::nanf(""), 1e-45f};
  table().cast_f32_mask(m.data(), x, 4);
  EXPECT_EQ(std::vector<int32_t>(m.begin(), m.begin() + 4), (std::vector<int32_t>{0, 0, -1, -1}));
  table().iota(m.data(), highest - 1, 3, 3);
  EXPECT_EQ(std::vector<int32_t>(m.begin(), m.begin() + 3),
            (std::vector<int32_t>{highest - 1, lowest + 1, lowest + 4}));
}

// The first four words are the known answer of the generator's authors for an all-zero counter and key.
TEST_P(HostInteger, PhiloxMatchesTheDefinition) {
  const uint32_t want[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const int32_t zero = 0;
  for (int w = 0; w < 4; ++w) {
    int32_t got = 0;
    table().philox(&got, &zero, &zero, &zero, w, 1, 7);
    EXPECT_EQ(static_cast<uint32_t>(got), want[w]);
  }
  const auto reference = [](uint32_t seed, uint32_t offset, uint32_t index, int word) {
    uint32_t c[4] = {offset, 0, index, 0}, k[2] = {seed, 0};
    for (int r = 0; r < 10; ++r) {
      const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
      const uint32_t n[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
                             static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
      std::copy(n, n + 4, c);
      k[0] += 0x9E3779B9;
      k[1] += 0xBB67AE85;
    }
    return static_cast<int32_t>(c[word]);
  };
  const auto seed = samples(70, 6), offset = samples(70, 7), index = samples(70, 8);
  std::vector<int32_t> y(70);
  for (Splat s = 0; s < 8; ++s)
    for (int w = 0; w < 4; ++w) {
      table().philox(y.data(), seed.data(), offset.data(), index.data(), w, y.size(), s);
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_EQ(y[i],
                  reference(static_cast<uint32_t>(seed[s & 1 ? 0 : i]), static_cast<uint32_t>(offset[s & 2 ? 0 : i]),
                            static_cast<uint32_t>(index[s & 4 ? 0 : i]), w));
    }
}

INSTANTIATE_TEST_SUITE_P(All, HostInteger, testing::Values(Isa::baseline, Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(base::isa_name(info.param)); });

TEST(HostVector, RepeatSpreadsOneValuePerRow) {
  const float a[3] = {1, 2, 3};
  float y[8];
  repeat(y, a, 3, 8);
  EXPECT_EQ(std::vector<float>(y, y + 8), (std::vector<float>{1, 1, 1, 2, 2, 2, 3, 3}));
}

}  // namespace
}  // namespace spyre::card::host
