#include "graph/size.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/error.h"

namespace spyre::graph {
namespace {

const Size a = Size::symbol(0), b = Size::symbol(1), c = Size::symbol(2);

TEST(Size, EqualPolynomialsAreEqualHoweverTheyWereBuilt) {
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(a * 3 - a - a - a, Size(0));
  EXPECT_EQ((a + 1) * b, b + b * a);
  EXPECT_FALSE(a + 1 == a);
  EXPECT_TRUE((a - a + 7).is(7));
  EXPECT_EQ(Size::min(a, b), Size::min(b, a));
}

TEST(Size, ViewsOfSplitDimensionsSimplify) {
  EXPECT_EQ(Size::floor_div(a * b * 64, b * 64), a);
  EXPECT_EQ(Size::floor_div(a * 64 + 63, Size(64)), a);
  EXPECT_EQ(Size::floor_div(a * a - b * b, a + b), a - b);
  EXPECT_EQ(Size::mod(a * 64, 64), Size(0));
  EXPECT_EQ(Size::mod(a * 64 + 5, 64), Size(5));
  EXPECT_EQ(Size::floor_div(Size::floor_div(a + 3, 4), 8), Size::floor_div(a + 3, 32));
  EXPECT_EQ(Size::floor_div(a * 2, 4), Size::floor_div(a, 2));
  EXPECT_EQ(Size::floor_div(a * b + c, b), a + Size::floor_div(c, b));
  EXPECT_EQ(Size::max(a, a + 1), a + 1);
  EXPECT_EQ(Size::floor_div(a, -2), Size::floor_div(Size(0) - a, 2));
}

TEST(Size, TextIsReadableAndReadsBack) {
  EXPECT_EQ((a * 8 + 3).text(), "8*s0 + 3");
  EXPECT_EQ(Size::floor_div(a + 63, 64).text(), "floor_div(s0 + 63, 64)");
  EXPECT_EQ((Size(0) - a).text(), "-s0");
  EXPECT_EQ(Size(INT64_MIN).text(), "-9223372036854775808");
  for (const Size& s : {a, a * b - 2, Size(INT64_MIN), Size(INT64_MIN) * a - b, Size::mod(a * 3 + 1, 7),
                        Size::max(a, Size::min(b, c) * 2)})
    EXPECT_EQ(Size::parse(s.text()), s) << s.text();
  EXPECT_EQ(Size::parse("mod(s0, 64)"), Size::mod(a, 64));
  EXPECT_EQ(Size::parse("-(s0 - 1) * 2"), Size(2) - a * 2);
}

TEST(Size, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "s", "s0 +", "s0 s1", "3.5", "99999999999999999999", "9223372036854775808", "foo(s0, 1)",
                           "min(s0)", "(s0", "s99999999999", "floor_div(s0, 0)", "s0)", "mod(1, 0)", "-"})
    EXPECT_THROW(Size::parse(text), Error) << text;
  EXPECT_THROW(Size::parse(std::string(100'000, '(')), Error);
  std::string nested = "s0", product = "s0";
  for (int i = 0; i < 60; ++i) nested = "min(" + nested + ", 3*s0)", product += "*s0";
  EXPECT_THROW(Size::parse(nested), Error);
  EXPECT_THROW(Size::parse(product), Error);
}

TEST(Size, OverflowIsAnError) {
  EXPECT_THROW(Size(INT64_MAX) + 1, Error);
  EXPECT_THROW(Size(INT64_MIN) - 1, Error);
  EXPECT_THROW(Size(INT64_MAX) * a * 2, Error);
  EXPECT_THROW((a * a).eval(std::vector<int64_t>{1LL << 40}), Error);
  EXPECT_THROW(Size::floor_div(INT64_MIN, -1), Error);
  EXPECT_THROW(Size::floor_div(a, b).eval(std::vector<int64_t>{1, 0}), Error);
  EXPECT_THROW(b.eval(std::vector<int64_t>{1}), Error);
}

TEST(Size, DivisionRoundsDown) {
  EXPECT_TRUE(Size::floor_div(-7, 2).is(-4));
  EXPECT_TRUE(Size::mod(-7, 2).is(1));
  EXPECT_EQ(Size::floor_div(a - 8, 3).eval(std::vector<int64_t>{1}), -3);
}

struct Reference {
  Size size;
  std::vector<int64_t> value;  // at each of the samples
};

TEST(Size, RandomExpressionsHaveTheValueOfTheirOperations) {
  const uint32_t seed = 20261129;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::vector<int64_t>> samples = {{1, 1, 1}, {2, 5, 3}, {7, 4, 64}, {100, 33, 9}, {64, 128, 1}};
  const auto floor_div = [](int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Reference> pool;
    for (int s = 0; s < 3; ++s) {
      pool.push_back({Size::symbol(s), {}});
      for (const auto& sample : samples) pool.back().value.push_back(sample[static_cast<size_t>(s)]);
    }
    for (int step = 0; step < 6; ++step) {
      const Reference x = pool[random() % pool.size()];
      Reference y = pool[random() % pool.size()], r;
      if (random() % 2) {
        const int64_t k = static_cast<int64_t>(random() % 12) + 1;
        y = {Size(k), std::vector<int64_t>(samples.size(), k)};
      }
      const int op = static_cast<int>(random() % 7);
      const bool positive = std::all_of(y.value.begin(), y.value.end(), [](int64_t v) { return v > 0; });
      if ((op == 3 || op == 4) && !positive) continue;
      try {
        r.size = op == 0   ? x.size + y.size
                 : op == 1 ? x.size - y.size
                 : op == 2 ? x.size * y.size
                 : op == 3 ? Size::floor_div(x.size, y.size)
                 : op == 4 ? Size::mod(x.size, y.size)
                 : op == 5 ? Size::min(x.size, y.size)
                           : Size::max(x.size, y.size);
      } catch (const Error&) {
        continue;  // too large
      }
      bool small = true;
      for (size_t i = 0; i < samples.size(); ++i) {
        const int64_t p = x.value[i], q = y.value[i];
        const int64_t v = op == 0   ? p + q
                          : op == 1 ? p - q
                          : op == 2 ? p * q
                          : op == 3 ? floor_div(p, q)
                          : op == 4 ? p - q * floor_div(p, q)
                          : op == 5 ? std::min(p, q)
                                    : std::max(p, q);
        small = small && std::abs(v) < 1'000'000;
        r.value.push_back(v);
      }
      if (!small) continue;
      for (size_t i = 0; i < samples.size(); ++i) ASSERT_EQ(r.size.eval(samples[i]), r.value[i]) << r.size.text();
      ASSERT_EQ(Size::parse(r.size.text()), r.size) << r.size.text();
      pool.push_back(r);
    }
  }
}

}  // namespace
}  // namespace spyre::graph
