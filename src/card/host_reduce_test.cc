// Reductions and scans: values against double precision, special values, and one order on every instruction set.
#include "card/host_reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "card/host_reduce_simd.h"

namespace spyre::card::host {
namespace {

using base::Isa;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_floats(size_t n, uint32_t seed, float lo = -2, float hi = 3) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(lo, hi);
  std::vector<float> out(n);
  for (float& v : out) v = uniform(random);
  return out;
}

const size_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 100, 384, 1000, 1024};

class HostReduce : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!base::isa_available(GetParam())) GTEST_SKIP() << "not on this machine";
  }
  const ReduceTable& table() const { return reduce_table(GetParam()); }
};

TEST_P(HostReduce, SumsAreRightAndTheSameOnEveryInstructionSet) {
  const ReduceTable& base = reduce_table(Isa::baseline);
  for (size_t n : lengths) {
    const auto a = random_floats(n, 11);
    double sum = 0, scale = 0, squares = 0, prod = 1;
    for (float v : a) {
      sum += v;
      scale += std::fabs(v);
      squares += (v - 0.5) * (v - 0.5);
      prod *= v;
    }
    const float got = table().sum(a.data(), n);
    EXPECT_NEAR(got, sum, scale * 1e-6);
    EXPECT_EQ(got, base.sum(a.data(), n)) << n;
    EXPECT_EQ(table().prod(a.data(), n), base.prod(a.data(), n)) << n;
    EXPECT_NEAR(table().prod(a.data(), n), prod, n < 40 ? std::fabs(prod) * 1e-5 : INFINITY);
    EXPECT_NEAR(table().sum_squares(a.data(), 0.5f, n), squares, squares * 1e-6);
    double exps = 0;
    for (float v : a) exps += std::exp(v - 3.0);
    EXPECT_NEAR(table().sum_exp(a.data(), 3.0f, n), exps, exps * 1e-6);
  }
}

TEST_P(HostReduce, LanesPastTheEndDoNotCount) {
  std::vector<float> a(64, nan_value);
  for (size_t n : {size_t{0}, size_t{1}, size_t{5}, size_t{33}}) {
    std::fill_n(a.begin(), n, 1.0f);
    EXPECT_EQ(table().sum(a.data(), n), static_cast<float>(n));
    EXPECT_EQ(table().prod(a.data(), n), 1.0f);
    EXPECT_EQ(table().max(a.data(), n), n ? 1.0f : -infinity);
    EXPECT_EQ(table().min(a.data(), n), n ? 1.0f : infinity);
    EXPECT_EQ(table().sum_exp(a.data(), 1.0f, n), static_cast<float>(n));
  }
}

TEST_P(HostReduce, MaximumKeepsNaNFromAnyLane) {
  for (size_t n : {size_t{1}, size_t{17}, size_t{40}, size_t{100}})
    for (size_t at = 0; at < n; ++at) {
      auto a = random_floats(n, 12);
      EXPECT_EQ(table().max(a.data(), n), *std::max_element(a.begin(), a.end()));
      EXPECT_EQ(table().min(a.data(), n), *std::min_element(a.begin(), a.end()));
      a[at] = nan_value;
      EXPECT_TRUE(std::isnan(table().max(a.data(), n))) << n << " " << at;
      EXPECT_TRUE(std::isnan(table().min(a.data(), n))) << n << " " << at;
    }
}

TEST_P(HostReduce, IntegersAndSearches) {
  for (size_t n : lengths) {
    std::mt19937 random(13);
    std::vector<int32_t> a(n);
    int64_t sum = 0;
    for (int32_t& v : a) sum += v = static_cast<int32_t>(random());
    EXPECT_EQ(table().sum_i32(a.data(), n), sum);
    EXPECT_EQ(table().max_i32(a.data(), n), n ? *std::max_element(a.begin(), a.end()) : INT32_MIN);
    EXPECT_EQ(table().min_i32(a.data(), n), n ? *std::min_element(a.begin(), a.end()) : INT32_MAX);
    if (n) {
      EXPECT_EQ(table().find(a.data(), a[n / 2], n), n / 2);
    }
    EXPECT_EQ(table().find(a.data(), 123456, n), n);
  }
}

TEST_P(HostReduce, RowFormsMatchTheStripForms) {
  constexpr size_t rows = 37, n = 21;
  auto a = random_floats(rows * n, 14, -5, 5);
  a[3] = -infinity;                                            // lane 3 of row 0
  for (size_t r = 0; r < rows; ++r) a[r * n + 4] = -infinity;  // a fully masked lane
  a[7 * n + 5] = infinity;
  a[9 * n + 6] = nan_value;
  a[11 * n + 6] = nan_value;
  std::vector<float> mean(n), m2(n), max(n, -infinity), sum(n), best(n), least(n);
  std::vector<int32_t> at(n, -1), low(n, -1);
  for (size_t r = 0; r < rows; ++r) {
    const float* row = a.data() + r * n;
    table().welford_rows(mean.data(), m2.data(), 1.0f / static_cast<float>(r + 1), row, n);
    table().logsumexp_rows(max.data(), sum.data(), row, n);
    table().argmax_rows(best.data(), at.data(), row, static_cast<int32_t>(r), n);
    table().argmin_rows(least.data(), low.data(), row, static_cast<int32_t>(r), n);
  }
  for (size_t c = 0; c < n; ++c) {
    std::vector<float> column(rows);
    for (size_t r = 0; r < rows; ++r) column[r] = a[r * n + c];
    LogSumExpState l;
    logsumexp(l, column.data(), rows);
    ArgState hi, lo;
    f32_argmax(hi, column.data(), 0, rows);
    f32_argmin(lo, column.data(), 0, rows);
    EXPECT_EQ(at[c], hi.index) << c;
    EXPECT_EQ(low[c], lo.index) << c;
    if (c == 6) {
      EXPECT_TRUE(std::isnan(sum[c]) && std::isnan(l.sum) && std::isnan(max[c]));
      EXPECT_EQ(hi.index, 9);
      EXPECT_EQ(lo.index, 9);
      continue;
    }
    EXPECT_EQ(best[c], hi.value);
    EXPECT_EQ(max[c], l.max);
    EXPECT_NEAR(sum[c], l.sum, 1e-5f * l.sum) << c;
    if (std::isfinite(column[0]) && c != 5) {
      double m = 0, s = 0;
      for (float v : column) m += v / static_cast<double>(rows);
      for (float v : column) s += (v - m) * (v - m);
      EXPECT_NEAR(mean[c], m, 1e-5);
      EXPECT_NEAR(m2[c], s, s * 1e-5);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostReduce, testing::Values(Isa::baseline, Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(base::isa_name(info.param)); });

TEST(HostReduceStates, ArgMaxTakesTheFirstAndNaN) {
  ArgState s;
  f32_argmax(s, nullptr, 0, 0);
  EXPECT_EQ(s.index, -1);
  const std::vector<float> a = {1, 5, 5, -infinity}, b = {5, 4}, c = {9, nan_value, nan_value},
                           d = {infinity, nan_value};
  f32_argmax(s, a.data(), 0, a.size());
  EXPECT_EQ(s.index, 1);
  f32_argmax(s, b.data(), 4, b.size());
  EXPECT_EQ(s.index, 1);
  f32_argmax(s, c.data(), 6, c.size());
  EXPECT_EQ(s.index, 7);
  f32_argmax(s, d.data(), 9, d.size());
  EXPECT_EQ(s.index, 7);
  const std::vector<float> all(70, -infinity);
  ArgState m;
  f32_argmax(m, all.data(), 3, all.size());
  EXPECT_EQ(m.index, 3);
  ArgStateI32 i;
  const std::vector<int32_t> v = {3, INT32_MIN, INT32_MIN, 9};
  i32_argmin(i, v.data(), 0, v.size());
  EXPECT_EQ(i.index, 1);
  i = {};
  i32_argmax(i, v.data(), 10, v.size());
  EXPECT_EQ(i.index, 13);
}

TEST(HostReduceStates, WelfordOverPartsWithALargeMean) {
  auto a = random_floats(5000, 15, 0, 1);
  for (float& v : a) v += 4096;
  double mean = 0, m2 = 0;
  for (float v : a) mean += v;
  mean /= static_cast<double>(a.size());
  for (float v : a) m2 += (v - mean) * (v - mean);
  WelfordState s;
  for (size_t i = 0; i < a.size(); i += 700) welford(s, a.data() + i, std::min<size_t>(700, a.size() - i));
  EXPECT_EQ(s.count, 5000.0f);
  EXPECT_NEAR(s.mean, mean, 1e-3);
  EXPECT_NEAR(s.m2, m2, m2 * 1e-3);
}

TEST(HostReduceStates, LogSumExpOfExtremes) {
  const auto total = [](const std::vector<float>& a, size_t part) {
    LogSumExpState s;
    for (size_t i = 0; i < a.size(); i += part) logsumexp(s, a.data() + i, std::min(part, a.size() - i));
    return s.max + std::log(s.sum);
  };
  for (size_t part : {size_t{1}, size_t{2}, size_t{8}}) {
    EXPECT_NEAR(total({1000, 1000, 999, -1000}, part), 1000 + std::log(2 + std::exp(-1.0)), 1e-3);
    EXPECT_EQ(total({-infinity, -infinity, -infinity}, part), -infinity);
    EXPECT_EQ(total({-infinity, 3, -infinity}, part), 3.0f);
    EXPECT_EQ(total({1, infinity, 5, infinity, -infinity}, part), infinity);
    EXPECT_TRUE(std::isnan(total({1, nan_value, infinity, 5}, part)));
  }
}

TEST(HostReduceStates, IntegerProductsReportWhatLeavesInt32) {
  const auto product = [](std::vector<int32_t> a) {
    I32Status status = i32_exact;
    const int32_t p = i32_prod(a.data(), a.size(), &status);
    return std::pair(p, status);
  };
  EXPECT_EQ(product({}), std::pair(1, i32_exact));
  EXPECT_EQ(product({65536, 32768, -1}), std::pair(INT32_MIN, i32_exact));
  EXPECT_EQ(product({65536, 32768}), std::pair(INT32_MIN, i32_overflow));
  EXPECT_EQ(product({65536, 65536, 65536, 0}), std::pair(0, i32_exact));
  EXPECT_EQ(product({65536, 65536}), std::pair(0, i32_overflow));
  EXPECT_EQ(product(std::vector<int32_t>(100, INT32_MIN)), std::pair(0, i32_overflow));
}

TEST(HostReduceStates, ScansCarryAcrossStrips) {
  const std::vector<float> a = {1, 2, -3, 4, 0.5f};
  std::vector<float> y(5);
  float carry = 10;
  f32_scan(ScanOp::sum, y.data(), a.data(), carry, 3);
  f32_scan(ScanOp::sum, y.data() + 3, a.data() + 3, carry, 2);
  EXPECT_EQ(y, (std::vector<float>{11, 13, 10, 14, 14.5f}));
  EXPECT_EQ(carry, 14.5f);
  const std::vector<float> b = {1, nan_value, 5};
  carry = -infinity;
  f32_scan(ScanOp::max, y.data(), b.data(), carry, 3);
  EXPECT_TRUE(y[0] == 1 && std::isnan(y[1]) && std::isnan(y[2]));
  const std::vector<int32_t> c = {INT32_MAX, 1, -1};
  std::vector<int32_t> z(3);
  int32_t i = 0;
  EXPECT_EQ(i32_scan(ScanOp::sum, z.data(), c.data(), i, 3), i32_overflow);
  EXPECT_EQ(z, (std::vector<int32_t>{INT32_MAX, INT32_MIN, INT32_MAX}));
  i = INT32_MAX;
  EXPECT_EQ(i32_scan(ScanOp::min, z.data(), c.data(), i, 3), i32_exact);
  EXPECT_EQ(z, (std::vector<int32_t>{INT32_MAX, 1, -1}));
}

TEST(HostReduceStates, MasksAnyAndAll) {
  std::vector<int32_t> m(40, 0);
  EXPECT_FALSE(mask_any(m.data(), m.size()));
  EXPECT_TRUE(mask_all(m.data(), 0));
  m[39] = -1;
  EXPECT_TRUE(mask_any(m.data(), m.size()));
  EXPECT_FALSE(mask_all(m.data(), m.size()));
  std::fill(m.begin(), m.end(), -1);
  EXPECT_TRUE(mask_all(m.data(), m.size()));
}

}  // namespace
}  // namespace spyre::card::host
