// Elementwise float32 kernels of every instruction set against double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/formats.h"
#include "card/host_vector.h"
#include "card/host_vector_simd.h"

namespace spyre::card::host {
namespace {

using base::Isa;

class HostFloat : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!base::isa_available(GetParam())) GTEST_SKIP() << "not on this machine";
  }
  const FloatTable& table() const { return float_table(GetParam()); }
  F32UnaryFn fn(F32Unary op) const { return table().unary[static_cast<int>(op)]; }
  F32BinaryFn fn(F32Binary op) const { return table().binary[static_cast<int>(op)]; }
};

// The distance of a float from the exact value in units of the exact value's last place (of float32, subnormals
// included).
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  const float rounded = static_cast<float>(want);
  if (got == rounded) return 0;
  if (std::isinf(rounded) || std::isinf(got) || std::isnan(got)) {
    // An exact value next to the largest float may round either way.
    return std::isinf(got) && std::fabs(want) > 3.4028233e38 && std::signbit(got) == std::signbit(want) ? 1 : INFINITY;
  }
  const int e = std::max(std::ilogb(want == 0 ? 1e-300 : want), -126);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, e - 23);
}

const float specials[] = {
    0.0f,           -0.0f,         1.0f,       -1.0f,  INFINITY,   -INFINITY,  NAN,         1e-45f,     -1e-45f,
    1.1754944e-38f, 3.4028235e38f, -3.4e38f,   0.5f,   -0.5f,      2.0f,       88.7228f,    88.73f,     -87.34f,
    -103.97f,       -104.0f,       127.99999f, 128.0f, -149.0f,    -150.0f,    8192.0f,     8193.0f,    1e10f,
    -1e30f,         0.69314f,      0.34657f,   1e-10f, -1e-10f,    1e-20f,     0.99999994f, 1.0000001f, 3.14159274f,
    1.57079637f,    2.5f,          3.5f,       -2.5f,  8388608.0f, 8388607.5f, 4194304.5f};

// Specials, values of every exponent and sign, and `count` uniform in lo..hi.
std::vector<float> samples(float lo, float hi, size_t count, uint32_t seed) {
  std::vector<float> out(std::begin(specials), std::end(specials));
  std::mt19937 random(seed);
  for (int e = 0; e < 255; ++e)
    for (int i = 0; i < 16; ++i)
      out.push_back(
          std::bit_cast<float>(static_cast<uint32_t>(e) << 23 | (static_cast<uint32_t>(random()) & 0x807FFFFF)));
  std::uniform_real_distribution<float> uniform(lo, hi);
  for (size_t i = 0; i < count; ++i) out.push_back(uniform(random));
  return out;
}

struct Bound {
  F32Unary op;
  const char* name;
  double (*exact)(double);
  float lo, hi;     // where most samples lie
  double ulp;       // error allowed: this many units in the last place,
  double absolute;  // or this much, whichever is more
};

double sign_of(double x) { return std::isnan(x) || x == 0 ? x : x > 0 ? 1.0 : -1.0; }
double round_even(double x) { return std::nearbyint(x); }

const Bound bounds[] = {
    {F32Unary::neg, "neg", [](double x) { return -x; }, -10, 10, 0, 0},
    {F32Unary::abs, "abs", [](double x) { return std::fabs(x); }, -10, 10, 0, 0},
    {F32Unary::square, "square", [](double x) { return x * x; }, -10, 10, 0.5, 0},
    {F32Unary::sign, "sign", sign_of, -1, 1, 0, 0},
    {F32Unary::rcp, "rcp", [](double x) { return 1 / x; }, -10, 10, 0.5, 0},
    {F32Unary::floor, "floor", [](double x) { return std::floor(x); }, -100, 100, 0, 0},
    {F32Unary::ceil, "ceil", [](double x) { return std::ceil(x); }, -100, 100, 0, 0},
    {F32Unary::round, "round", round_even, -100, 100, 0, 0},
    {F32Unary::trunc, "trunc", [](double x) { return std::trunc(x); }, -100, 100, 0, 0},
    {F32Unary::exp, "exp", [](double x) { return std::exp(x); }, -105, 90, 2, 0},
    {F32Unary::exp2, "exp2", [](double x) { return std::exp2(x); }, -151, 129, 2, 0},
    {F32Unary::expm1, "expm1", [](double x) { return std::expm1(x); }, -3, 3, 2.5, 0},
    {F32Unary::log, "log", [](double x) { return std::log(x); }, 0, 4, 3, 0},
    {F32Unary::log2, "log2", [](double x) { return std::log2(x); }, 0, 4, 3, 0},
    {F32Unary::log1p, "log1p", [](double x) { return std::log1p(x); }, -1, 3, 3, 0},
    {F32Unary::sqrt, "sqrt", [](double x) { return std::sqrt(x); }, 0, 10, 0.5, 0},
    {F32Unary::rsqrt, "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0, 10, 1.5, 0},
    {F32Unary::sin, "sin", [](double x) { return std::sin(x); }, -8192, 8192, 1, 2e-7},
    {F32Unary::cos, "cos", [](double x) { return std::cos(x); }, -8192, 8192, 1, 2e-7},
    {F32Unary::tan, "tan", [](double x) { return std::tan(x); }, -1.5f, 1.5f, 4, 2e-7},
    {F32Unary::tanh, "tanh", [](double x) { return std::tanh(x); }, -10, 10, 6, 0},
    {F32Unary::erf, "erf", [](double x) { return std::erf(x); }, -5, 5, 1, 4e-7},
    {F32Unary::sigmoid, "sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -90, 90, 3, 3e-39},
};

TEST_P(HostFloat, UnaryFunctionsStayWithinTheirBounds) {
  for (const Bound& b : bounds) {
    const auto x = samples(b.lo, b.hi, 200000, 20240);
    std::vector<float> y(x.size());
    fn(b.op)(y.data(), x.data(), x.size());
    double worst = 0;
    float at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double want = b.exact(x[i]);
      if (b.op == F32Unary::tan && std::fabs(std::cos(static_cast<double>(x[i]))) < 1e-3) continue;  // a pole
      if (b.absolute > 0 && std::fabs(y[i] - want) <= b.absolute) continue;
      const double u = ulps(y[i], want);
      if (u > worst || std::isinf(u)) worst = u, at = x[i];
      if (want == 0 && y[i] == 0) {
        ASSERT_EQ(std::signbit(want), std::signbit(y[i])) << b.name << " " << x[i];
      }
    }
    EXPECT_LE(worst, b.ulp) << b.name << " at " << at << " (" << std::hexfloat << at << ")";
  }
}

TEST_P(HostFloat, SaturatingFunctionsNeverExceedOne) {
  std::vector<float> x, y;
  for (float v = 0; v < 12; v += 1e-4f) x.push_back(v);
  y.resize(x.size());
  for (F32Unary op : {F32Unary::erf, F32Unary::tanh}) {
    fn(op)(y.data(), x.data(), x.size());
    EXPECT_LE(*std::max_element(y.begin(), y.end()), 1.0f);
    EXPECT_EQ(y.back(), 1.0f);
  }
}

TEST_P(HostFloat, Exp2OfIntegersAndLog2OfPowersAreExact) {
  std::vector<float> x, y;
  for (int e = -149; e <= 127; ++e) x.push_back(static_cast<float>(e));
  y.resize(x.size());
  fn(F32Unary::exp2)(y.data(), x.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], std::ldexp(1.0f, static_cast<int>(x[i])));
  fn(F32Unary::log2)(y.data(), y.data(), y.size());
  EXPECT_EQ(x, y);
}

// Reads and writes exactly n lanes; every combination of splat operands; the destination may be an operand.
TEST_P(HostFloat, BinaryOperandsSplatAndAlias) {
  struct Case {
    F32Binary op;
    float (*exact)(float, float);
  };
  const Case cases[] = {
      {F32Binary::add, [](float a, float b) { return a + b; }},
      {F32Binary::sub, [](float a, float b) { return a - b; }},
      {F32Binary::mul, [](float a, float b) { return a * b; }},
      {F32Binary::div, [](float a, float b) { return a / b; }},
      {F32Binary::min, [](float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }},
      {F32Binary::max, [](float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }},
      {F32Binary::fmod, [](float a, float b) { return std::fmod(a, b); }},
      {F32Binary::pow, [](float a, float b) { return std::pow(a, b); }},
  };
  const auto a = samples(-3, 3, 300, 1);
  auto b = samples(-3, 3, 300, 2);
  std::reverse(b.begin(), b.end());
  for (const Case& c : cases)
    for (size_t n : {size_t{0}, size_t{1}, size_t{3}, size_t{15}, size_t{16}, size_t{17}, size_t{63}, size_t{64},
                     size_t{65}, size_t{130}, a.size()})
      for (Splat s = 0; s < 4; ++s)
        for (int alias = 0; alias < 3; ++alias) {
          std::vector<float> x = a, y = b, out(a.size() + 1, -7.0f);
          float* dst = alias == 0 ? out.data() : alias == 1 ? x.data() : y.data();
          const float x0 = x[0], y0 = y[0];
          fn(c.op)(dst, x.data(), y.data(), n, s);
          for (size_t i = 0; i < n; ++i) {
            const float want = c.exact(s & splat_first ? x0 : a[i], s & splat_second ? y0 : b[i]);
            if (want == 0 && c.op != F32Binary::min && c.op != F32Binary::max) {
              ASSERT_EQ(std::signbit(dst[i]), std::signbit(want))
                  << static_cast<int>(c.op) << " " << a[i] << " " << b[i];
            }
            ASSERT_LE(ulps(dst[i], want), c.op == F32Binary::pow ? 4 : 0)
                << static_cast<int>(c.op) << " " << a[i] << " " << b[i] << " " << s;
          }
          const auto& untouched = alias == 0 ? std::vector<float>(a.size(), -7.0f) : alias == 1 ? a : b;
          for (size_t i = n; i < a.size(); ++i)
            ASSERT_EQ(std::bit_cast<uint32_t>(dst[i]), std::bit_cast<uint32_t>(untouched[i]));
        }
}

TEST_P(HostFloat, QuotientsByOneDivisorAreRoundedToNearest) {
  std::mt19937 random(7);
  std::uniform_int_distribution<uint32_t> bits;
  std::vector<float> x(4096), y(x.size());
  for (int round = 0; round < 300; ++round) {
    // Every second round near the limits of the fast way, the others anywhere.
    for (float& v : x) v = std::bit_cast<float>(round % 2 ? bits(random) : (bits(random) & 0x83FFFFFF) + 0x3E000000);
    const float divisor = std::bit_cast<float>(round % 3 ? (bits(random) & 0x83FFFFFF) + 0x3E000000 : bits(random));
    fn(F32Binary::div)(y.data(), x.data(), &divisor, x.size(), splat_second);
    for (size_t i = 0; i < x.size(); ++i) {
      const float want = x[i] / divisor;
      if (std::isnan(want))
        ASSERT_TRUE(std::isnan(y[i]));
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << x[i] << " / " << divisor;
    }
  }
}

TEST_P(HostFloat, PowWithACommonExponentMatchesLibm) {
  const auto a = samples(-3, 3, 1000, 3);
  std::vector<float> y(a.size());
  for (float e : {-1.0f, 0.0f, 0.5f, 1.0f, 2.0f, 3.0f, -2.0f, NAN}) {
    fn(F32Binary::pow)(y.data(), a.data(), &e, a.size(), splat_second);
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(ulps(y[i], std::pow(static_cast<double>(a[i]), static_cast<double>(e))), 4) << a[i] << " " << e;
  }
}

TEST_P(HostFloat, ComparisonsWithNaN) {
  const float a[4] = {1, 2, NAN, 1}, b[4] = {2, 2, 2, NAN};
  const int32_t want[comparison_count][4] = {{-1, 0, 0, 0}, {-1, -1, 0, 0}, {0, 0, 0, 0},
                                             {0, -1, 0, 0}, {0, -1, 0, 0},  {-1, 0, -1, -1}};
  for (int c = 0; c < comparison_count; ++c) {
    int32_t mask[4];
    table().compare[c](mask, a, b, 4, splat_none);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(mask[i], want[c][i]) << c << " " << i;
  }
  int32_t mask[4];
  table().is_nan(mask, a, 4);
  EXPECT_EQ(std::vector<int32_t>(mask, mask + 4), (std::vector<int32_t>{0, 0, -1, 0}));
}

TEST_P(HostFloat, FmaTakesEverySplat) {
  const auto a = samples(-3, 3, 100, 4), b = samples(-3, 3, 100, 5), c = samples(-3, 3, 100, 6);
  std::vector<float> y(a.size());
  for (Splat s = 0; s < 8; ++s) {
    table().fma(y.data(), a.data(), b.data(), c.data(), a.size(), s);
    for (size_t i = 0; i < a.size(); ++i) {
      const float p = a[s & 1 ? 0 : i], q = b[s & 2 ? 0 : i], r = c[s & 4 ? 0 : i];
      const float fused = std::fma(p, q, r), separate = p * q + r;
      ASSERT_TRUE(y[i] == fused || y[i] == separate ||
                  (std::isnan(y[i]) && (std::isnan(fused) || std::isnan(separate))))
          << p << " " << q << " " << r;
    }
  }
}

TEST_P(HostFloat, RoundingToDl16IsEncodingAndDecoding) {
  std::vector<float> x = samples(-3, 3, 1000, 9);
  for (uint32_t code = 0; code < 0x10000; ++code) {  // each code's value, and what lies around the middle to the next
    const auto bits = std::bit_cast<uint32_t>(base::dl16_to_f32(static_cast<uint16_t>(code)));
    for (const uint32_t b : {bits, bits + 0x1FFF, bits + 0x2000, bits + 0x2001, bits - 1})
      x.push_back(std::bit_cast<float>(b));
  }
  for (const uint32_t b : {0x2F803FFFu, 0x2F804000u, 0x30000000u, 0x30001FFFu, 0x7F7FFFFFu, 0x7FFFFFFFu, 0xFFFFFFFFu})
    x.push_back(std::bit_cast<float>(b));
  std::vector<float> y(x.size());
  fn(F32Unary::round_dl16)(y.data(), x.data(), x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const float want = base::dl16_to_f32(base::f32_to_dl16(x[i], base::Overflow::infinity));
    ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(want)) << x[i];
  }
  // Chains ask once a block whether all values are ordinary: no neighbour may answer for the values at the limits.
  const F32LinkArgs round{F32Link::round_dl16};
  const auto chain = chain_table(GetParam()).chain;
  std::vector<float> chained(x.size()), same(256);
  chain(chained.data(), x.data(), 1, x.size(), &round, 1);
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(chained[i]), std::bit_cast<uint32_t>(y[i])) << x[i];
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF;
    if (magnitude > 0x30010000 && magnitude < 0x4FFF0000) continue;
    std::fill(same.begin(), same.end(), x[i]);
    chain(same.data(), same.data(), 1, same.size(), &round, 1);
    for (const float got : same) ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(y[i])) << x[i];
  }
}

/// What the link does, by the kernels of single operations.
void apply_alone(const FloatTable& table, const F32LinkArgs& link, std::vector<float>& x, int64_t rows, size_t n) {
  if (link.op == F32Link::keep) return;
  if (!has_operand(link.op)) {
    constexpr F32Unary unary[] = {F32Unary::neg, F32Unary::abs,  F32Unary::square, F32Unary::rcp,
                                  F32Unary::exp, F32Unary::tanh, F32Unary::erf,    F32Unary::round_dl16};
    const int at = static_cast<int>(link.op) - static_cast<int>(F32Link::neg);
    return table.unary[static_cast<int>(unary[at])](x.data(), x.data(), x.size());
  }
  constexpr F32Binary binary[] = {F32Binary::add, F32Binary::sub, F32Binary::sub, F32Binary::mul,
                                  F32Binary::div, F32Binary::div, F32Binary::min, F32Binary::max};
  const int pair = static_cast<int>(link.op) / 2;
  const bool of_row = static_cast<int>(link.op) % 2 == 1, from = pair == 2 || pair == 5;
  const bool takes = link.op == F32Link::take_all || link.op == F32Link::take_row;
  const F32BinaryFn fn = takes ? nullptr : table.binary[static_cast<int>(binary[pair])];
  for (int64_t r = 0; r < rows; ++r) {
    float* row = x.data() + r * static_cast<int64_t>(n);
    const float* with = link.with + r * link.row_stride;
    if (takes)
      for (size_t i = 0; i < n; ++i) row[i] = of_row ? *with : with[i];
    else if (from)
      fn(row, with, row, n, of_row ? splat_first : splat_none);
    else
      fn(row, row, with, n, of_row ? splat_second : splat_none);
  }
}

TEST_P(HostFloat, ChainsGiveWhatTheirLinksGiveOneByOne) {
  constexpr uint32_t seed = 7;
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::vector<float> pool = samples(-3, 3, 4000, seed);
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t rows = static_cast<int64_t>(1 + below(4));
    const size_t n = std::vector<size_t>{1, 3, 16, 31, 64, 128, 130, 300}[below(8)],
                 lanes = n * static_cast<size_t>(rows);
    const auto draw = [&](size_t count) {
      std::vector<float> v(count);
      for (float& x : v) x = pool[below(pool.size())];
      return v;
    };
    const std::vector<float> from = draw(lanes);
    std::vector<std::vector<float>> operands;
    F32LinkArgs links[most_links];
    const int count = static_cast<int>(1 + below(most_links));
    std::vector<float> want = from;
    std::vector<std::vector<float>> slots(most_slots);
    std::string text;
    for (int k = 0; k < count; ++k) {
      F32LinkArgs& link = links[k];
      link.op = static_cast<F32Link>(below(static_cast<size_t>(F32Link::round_dl16) + 1));
      text += " " + std::to_string(static_cast<int>(link.op));
      std::vector<float>& slot = slots[below(most_slots)];
      if (link.op == F32Link::keep || (is_of_all(link.op) && !slot.empty() && below(2) == 0)) {
        link.slot = static_cast<int>(&slot - slots.data());
        text += "@" + std::to_string(link.slot);
      }
      if (link.op == F32Link::keep) slot = want;
      F32LinkArgs alone = link;
      if (link.slot >= 0) {
        alone.with = slot.data();
        alone.row_stride = static_cast<int64_t>(n);
      } else if (has_operand(link.op)) {
        const bool of_row = static_cast<int>(link.op) % 2 == 1, same = below(3) == 0;
        link.with = operands.emplace_back(draw(lanes)).data();
        link.row_stride = same ? 0 : of_row ? 1 : static_cast<int64_t>(n);
        alone = link;
      }
      apply_alone(table(), alone, want, rows, n);
    }
    std::vector<float> apart(lanes), in_place = from;
    chain_table(GetParam()).chain(apart.data(), from.data(), rows, n, links, count);
    chain_table(GetParam()).chain(in_place.data(), in_place.data(), rows, n, links, count);
    for (size_t i = 0; i < lanes; ++i) {
      const bool nan = std::isnan(want[i]);
      for (const float got : {apart[i], in_place[i]})
        ASSERT_TRUE(nan ? std::isnan(got) : std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want[i]))
            << "seed " << seed << ", trial " << trial << ", lane " << i << " of " << rows << " x " << n << ", links"
            << text << ": " << got << ", not " << want[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostFloat, testing::Values(Isa::baseline, Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(base::isa_name(info.param)); });

}  // namespace
}  // namespace spyre::card::host
