// The oracle against values computed by hand.
#include "graph/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "base/error.h"

namespace spyre::graph {
namespace {

const double nan_value = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;

/// The outputs of a graph, in the order of their storage.
std::vector<Tensor> run(const std::string& text, const std::vector<Values>& inputs, const Values& params = {},
                        bool round = true) {
  const Graph g = parse(text);
  std::vector<Tensor> in;
  for (const Values& v : inputs) in.push_back({v, {}});
  const std::vector<Tensor> all = interpret(g, in, params, {round});
  std::vector<Tensor> out;
  for (const Ref& r : g.outputs) out.push_back(all[static_cast<size_t>(r.value)]);
  return out;
}

void expect(const Tensor& t, const Values& values, double error = 0) {
  ASSERT_EQ(t.value.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]))
      EXPECT_TRUE(std::isnan(t.value[i])) << i << ": " << t.value[i];
    else if (std::isinf(values[i]))
      EXPECT_EQ(t.value[i], values[i]) << i;
    else
      EXPECT_NEAR(t.value[i], values[i], error) << i;
  }
}

void refused(const std::string& text, const std::vector<Values>& inputs, const std::string& why,
             const Values& params = {}) {
  try {
    run(text, inputs, params);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::user);
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("aten.op at m.py:1"), std::string::npos) << e.what();
  }
}

/// One f32 map of x over 4 points with `value`.
Values map4(const std::string& value, const Values& x, const Values& y = {1, 1, 1, 1}) {
  const auto t =
      run("param p0 \"p\" f32\ninput v0 f32 [4:1]\ninput v1 f32 [4:1]\nv2 f32 [4:1] = map [4] loads(v0[4:1], v1[4:1]) "
          "value(" +
              value + ")\noutput v2[4:1]",
          {x, y}, {3.0});
  return t[0].value;
}
Values integer4(const std::string& value, const Values& x, const Values& y = {1, 1, 1, 1}) {
  const auto t = run("input v0 i32 [4:1]\ninput v1 i32 [4:1]\nv2 i32 [4:1] = map [4] loads(v0[4:1], v1[4:1]) value(" +
                         value + ")\noutput v2[4:1]",
                     {x, y});
  return t[0].value;
}

TEST(InterpretMap, FloatOperations) {
  const Values x = {-2.5, 0.5, 2, 4};
  EXPECT_EQ(map4("add(mul(l0, p0), l1)", x), (Values{-6.5, 2.5, 7, 13}));
  EXPECT_EQ(map4("div(sub(l0, 1.0), 2.0)", x), (Values{-1.75, -0.25, 0.5, 1.5}));
  EXPECT_EQ(map4("round(l0)", {-2.5, 0.5, 1.5, 2.6}), (Values{-2, 0, 2, 3}));
  EXPECT_EQ(map4("floor(l0)", x), (Values{-3, 0, 2, 4}));
  EXPECT_EQ(map4("ceil(l0)", x), (Values{-2, 1, 2, 4}));
  EXPECT_EQ(map4("trunc(l0)", x), (Values{-2, 0, 2, 4}));
  EXPECT_EQ(map4("sqrt(square(l0))", x), (Values{2.5, 0.5, 2, 4}));
  EXPECT_EQ(map4("rsqrt(abs(l0))", {4, 16, -0.25, 1}), (Values{0.5, 0.25, 2, 1}));
  EXPECT_EQ(map4("pow(l0, p0)", x), (Values{-15.625, 0.125, 8, 64}));
  EXPECT_EQ(map4("fmod(l0, 2.0)", {-2.5, 0.5, 5, 4}), (Values{-0.5, 0.5, 1, 0}));
  EXPECT_EQ(map4("sign(l0)", {-2, 0, 3, infinity}), (Values{-1, 0, 1, 1}));
  EXPECT_EQ(map4("fma(l0, l0, neg(l1))", x), (Values{5.25, -0.75, 3, 15}));
  EXPECT_EQ(map4("exp2(l0)", {-1, 0, 3, 10}), (Values{0.5, 1, 8, 1024}));
  EXPECT_EQ(map4("log2(l0)", {0.5, 1, 8, 0}), (Values{-1, 0, 3, -infinity}));
  EXPECT_EQ(map4("rcp(l0)", {0.5, -4, infinity, 0}), (Values{2, -0.25, 0, infinity}));
  EXPECT_NEAR(map4("tanh(l0)", x)[1], std::tanh(0.5), 1e-7);
  EXPECT_NEAR(map4("erf(l0)", x)[1], std::erf(0.5), 1e-7);
  EXPECT_EQ(map4("select(logical_and(gt(l0, 0.0), logical_not(eq(l0, 2.0))), l0, -1.0)", x), (Values{-1, 0.5, -1, 4}));
  EXPECT_EQ(map4("f32(iota(0))", x), (Values{0, 1, 2, 3}));
  EXPECT_EQ(map4("f32(lt(l0, 1.0))", x), (Values{1, 1, 0, 0}));
  EXPECT_EQ(map4("f32(size(40))", x), (Values{40, 40, 40, 40}));
}

TEST(InterpretMap, NaNAndInfinityFollowTheCard) {
  EXPECT_TRUE(std::isnan(map4("max(l0, 1.0)", {nan_value, 0, 0, 0})[0]));
  EXPECT_TRUE(std::isnan(map4("min(1.0, l0)", {nan_value, 0, 0, 0})[0]));
  EXPECT_EQ(map4("f32(ne(l0, l0))", {nan_value, 0, infinity, -infinity}), (Values{1, 0, 0, 0}));
  EXPECT_EQ(map4("f32(is_nan(sub(l0, l0)))", {nan_value, 0, infinity, -infinity}), (Values{1, 0, 1, 1}));
  // f32 overflows although double would not.
  EXPECT_TRUE(std::isnan(map4("div(exp(l0), exp(l0))", {100, 0, 0, 0})[0]));
}

TEST(InterpretMap, IntegerOperationsWrapTruncateAndRoundDown) {
  EXPECT_EQ(integer4("add(l0, l1)", {2147483647, -5, 0, 1}), (Values{-2147483648.0, -4, 1, 2}));
  EXPECT_EQ(integer4("mul(l0, l0)", {65536, 3, -4, 46341}), (Values{0, 9, 16, -2147479015.0}));
  EXPECT_EQ(integer4("div(l0, l1)", {-7, 7, -7, 7}, {2, 2, -2, -2}), (Values{-3, 3, 3, -3}));
  EXPECT_EQ(integer4("floor_div(l0, l1)", {-7, 7, -7, 7}, {2, 2, -2, -2}), (Values{-4, 3, 3, -4}));
  EXPECT_EQ(integer4("remainder(l0, l1)", {-7, 7, -7, 7}, {2, 2, -2, -2}), (Values{1, 1, -1, -1}));
  EXPECT_EQ(integer4("shl(l0, l1)", {1, 3, 1, -1}, {31, 4, 32, 1}), (Values{-2147483648.0, 48, 0, -2}));
  EXPECT_EQ(integer4("shr(l0, l1)", {-8, 8, -1, 5}, {1, 2, 40, -1}), (Values{-4, 2, -1, 0}));
  EXPECT_EQ(integer4("bit_xor(bit_and(l0, 12), bit_or(l1, bit_not(0)))", {10, 0, 0, 0}), (Values{-9, -1, -1, -1}));
  EXPECT_EQ(integer4("i32(f32(l0))", {-3, 4, 16777217, 0})[1], 4);
  EXPECT_EQ(integer4("i32(mul(f32(l0), 1.0e+10))", {1, -1, 0, 0}), (Values{-2147483648.0, -2147483648.0, 0, 0}));
}

TEST(InterpretMap, PhiloxIsRandom123s) {
  // Known answers of Random123 for philox4x32-10 with counter and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  const auto word = [](int w) {
    const auto t = run("v0 i32 [] = map [] loads() value(philox" + std::to_string(w) + "(0, 0, 0))\noutput v0[]", {});
    return static_cast<uint32_t>(static_cast<int32_t>(t[0].value[0]));
  };
  EXPECT_EQ(word(0), 0x6627e8d5u);
  EXPECT_EQ(word(1), 0xe169c58du);
  EXPECT_EQ(word(2), 0xbc57ac4cu);
  EXPECT_EQ(word(3), 0x9b00dbd8u);
}

TEST(InterpretMap, StridesTransposeBroadcastAndFlip) {
  const auto t = run(R"(
input v0 f32 [2:3, 3:1]
v1 f32 [3:2, 2:1] = map [3, 2] loads(v0[3:1, 2:3]) value(l0)
v2 f32 [2:3, 3:1] = map [2, 3] loads(v0[2:3, 3:-1 @ 2], v0[2:0, 3:1]) value(sub(l0, l1))
v3 f32 [2:1, 3:2] = map [2, 3] loads(v0[2:3, 3:1]) value(l0)
output v1[3:2, 2:1]
output v2[2:3, 3:1]
output v3[2:1, 3:2])",
                     {{1, 2, 3, 4, 5, 6}});
  expect(t[0], {1, 4, 2, 5, 3, 6});
  expect(t[1], {2, 0, -2, 5, 3, 1});
  expect(t[2], {1, 4, 2, 5, 3, 6});
}

TEST(InterpretMap, LongRowsCrossStrips) {
  Values x(1500);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i);
  const auto t =
      run("input v0 f32 [3:500, 500:1]\nv1 f32 [500:3, 3:1] = map [500, 3] loads(v0[500:1, 3:500]) value(add(l0, "
          "f32(add(mul(iota(0), 3), "
          "iota(1)))))\noutput v1[500:3, 3:1]",
          {x});
  for (int i = 0; i < 500; ++i)
    for (int j = 0; j < 3; ++j) ASSERT_EQ(t[0].value[static_cast<size_t>(i * 3 + j)], j * 500 + i + i * 3 + j);
}

TEST(InterpretMap, GathersReadRowsFillAndTrap) {
  const std::string rows = R"(
input v0 f32 [3:2, 2:1]
input v1 i64 [4:1]
v2 f32 [4:2, 2:1] = map [4, 2] loads(v1[4:1, 2:0], v0[4:0, 2:1] gather(l0, 3, 2, %) fill 9.0) value(l1) at "aten.op" "m.py:1"
output v2[4:2, 2:1])";
  const auto with = [&](const char* rule) {
    std::string text = rows;
    text.replace(text.find('%'), 1, rule);
    if (std::string(rule) == "trap") text.replace(text.find(" fill 9.0"), 9, "");
    return text;
  };
  expect(run(with("trap"), {{1, 2, 3, 4, 5, 6}, {2, 0, 1, 2}})[0], {5, 6, 1, 2, 3, 4, 5, 6});
  expect(run(with("fill"), {{1, 2, 3, 4, 5, 6}, {-1, 0, 3, 2}})[0], {9, 9, 1, 2, 9, 9, 5, 6});
  refused(with("trap"), {{1, 2, 3, 4, 5, 6}, {0, 3, 0, 0}}, "index 3 is out of bounds for a dimension of size 3");
  refused(with("trap"), {{1, 2, 3, 4, 5, 6}, {0, -1, 0, 0}}, "index -1");
}

TEST(InterpretMap, Int64TrapsAndInt32Wraps) {
  const std::string text =
      "input v0 i64 [2:1]\nv1 i64 [2:1] = map [2] loads(v0[2:1]) value(%(l0, l0)) at \"aten.op\" \"m.py:1\"\noutput "
      "v1[2:1]";
  const auto with = [&](const char* op) {
    std::string t = text;
    return t.replace(t.find('%'), 1, op);
  };
  refused(with("mul!"), {{65536, 1}}, "leaves int32");
  refused(with("div!"), {{0, 1}}, "division by zero");
  expect(run(with("mul!"), {{46340, -2}})[0], {2147395600, 4});
  EXPECT_THROW(run(with("mul"), {{4294967296.0, 1}}), Error);
}

TEST(InterpretReduce, EveryMonoid) {
  const auto reduce = [](const std::string& monoid, const Values& x, const std::string& results = "v1 f32 [2:1]",
                         const std::string& value = "l0") {
    return run("input v0 f32 [2:3, 3:1]\n" + results + " = reduce " + monoid +
                   " [2, 3] over(1) loads(v0[2:3, 3:1]) value(" + value + ")\noutput v1[2:1]" +
                   (results.find("v2") != std::string::npos ? "\noutput v2[2:1]" : "") +
                   (results.find("v3") != std::string::npos ? "\noutput v3[2:1]" : ""),
               {x});
  };
  const Values x = {1, 5, 5, -2, nan_value, 3};
  expect(reduce("sum", {1, 2, 3, 4, 5, 6.5})[0], {6, 15.5});
  expect(reduce("prod", {1, 2, 3, 4, 5, 6.5})[0], {6, 130});
  expect(reduce("max", x)[0], {5, nan_value});
  expect(reduce("min", {1, 5, 5, -2, 7, 3})[0], {1, -2});
  const auto arg = reduce("argmax", x, "v1 f32 [2:1], v2 i64 [2:1]");
  expect(arg[0], {5, nan_value});
  expect(arg[1], {1, 1});
  expect(reduce("argmin", {3, 1, 1, nan_value, 0, nan_value}, "v1 f32 [2:1], v2 i64 [2:1]")[1], {1, 0});
  expect(reduce("any", {0, 0, 0, 0, 2, 0}, "v1 b8 [2:1]", "ne(l0, 0.0)")[0], {0, 1});
  expect(reduce("all", {1, 1, 1, 0, 2, 0}, "v1 b8 [2:1]", "ne(l0, 0.0)")[0], {1, 0});
  const auto welford = reduce("welford", {1, 2, 6, 4, 4, 4}, "v1 f32 [2:1], v2 f32 [2:1], v3 f32 [2:1]");
  expect(welford[0], {3, 4});
  expect(welford[1], {14, 0});
  expect(welford[2], {3, 3});
  const auto lse =
      reduce("logsumexp", {0, 0, std::log(2), -infinity, -infinity, -infinity}, "v1 f32 [2:1], v2 f32 [2:1]");
  expect(lse[0], {std::log(2), -infinity}, 1e-7);
  expect(lse[1], {2, 0}, 1e-6);
}

TEST(InterpretReduce, OuterAndSeveralDimensionsKeepTheirOrder) {
  const auto t = run(R"(
input v0 i32 [2:6, 3:2, 2:1]
v1 i32 [3:1] = reduce sum [2, 3, 2] over(0, 2) loads(v0[2:6, 3:2, 2:1]) value(l0)
v2 i32 [3:1], v3 i64 [3:1] = reduce argmax [2, 3, 2] over(0, 2) loads(v0[2:6, 3:2, 2:1]) value(l0)
v4 i32 [] = reduce max [2, 3, 2] over(0, 1, 2) loads(v0[2:6, 3:2, 2:1]) value(l0)
output v1[3:1]
output v2[3:1]
output v3[3:1]
output v4[])",
                     {{1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 9, -1}});
  expect(t[0], {18, 16, 19});
  expect(t[1], {8, 9, 9});
  expect(t[2], {3, 3, 2});
  expect(t[3], {9});
}

TEST(InterpretReduce, NothingGivesTheNeutralElement) {
  const auto t =
      run("input v0 f32 [2:0, 0:1]\nv1 f32 [2:1] = reduce sum [2, 0] over(1) loads(v0[2:0, 0:1]) value(l0)\nv2 f32 "
          "[2:1] = reduce max [2, 0] over(1) "
          "loads(v0[2:0, 0:1]) value(l0)\noutput v1[2:1]\noutput v2[2:1]",
          {{}});
  expect(t[0], {0, 0});
  expect(t[1], {-infinity, -infinity});
}

TEST(InterpretReduce, ErrorsCoverSumsOfEqualTerms) {
  for (const int n : {33, 100, 1000})
    for (const float x : {-1.23642695f, 0.1f, 3.3333333f}) {
      float sum = 0;
      for (int i = 0; i < n; ++i) sum += x;
      const auto t = run(fmt::format("input v0 f32 [1:1]\nv1 f32 [1:1] = reduce sum [1, {}] over(1) "
                                     "loads(v0[1:1, {}:0]) value(l0)\noutput v1[1:1]",
                                     n, n),
                         {{x}});
      EXPECT_LT(std::abs(sum - t[0].value[0]), tolerance(t[0], 0, base::Format::f32)) << n << " times " << x;
    }
}

TEST(InterpretReduce, SumsOfInt64TrapAtTheEndOnly) {
  const std::string text =
      "input v0 i64 [3:1]\nv1 i64 [] = reduce sum! [3] over(0) loads(v0[3:1]) value(l0) at \"aten.op\" "
      "\"m.py:1\"\noutput v1[]";
  expect(run(text, {{2147483647, 5, -6}})[0], {2147483646});
  refused(text, {{2147483647, 5, -4}}, "leaves int32");
}

TEST(InterpretContract, BatchedTransposedAndConvolution) {
  // a[2,2,3] x b[2,2,3]^T
  const auto t = run(R"(
input v0 f32 [2:6, 2:3, 3:1]
input v1 f32 [2:6, 2:3, 3:1]
v2 f32 [2:4, 2:2, 2:1] = contract [2:batch, 2:m, 2:n, 3:k] a(v0[2:6, 2:3, 2:0, 3:1]) b(v1[2:6, 2:0, 2:3, 3:1])
output v2[2:4, 2:2, 2:1])",
                     {{1, 2, 3, 4, 5, 6, 1, 0, 0, 0, 1, 0}, {1, 1, 1, 2, 0, 1, 7, 8, 9, 1, 2, 3}});
  expect(t[0], {6, 5, 15, 14, 7, 1, 8, 2}, 1e-9);
  // x[1,4] conv w[2 filters, 2 taps]: windows overlap; the result's channels come first.
  const auto c = run(R"(
input v0 f32 [4:1]
input v1 f32 [2:2, 2:1]
v2 f32 [2:3, 3:1] = contract [2:n, 3:m, 2:k] a(v0[2:0, 3:1, 2:1]) b(v1[2:2, 3:0, 2:1])
output v2[2:3, 3:1])",
                     {{1, 2, 3, 4}, {1, 1, 1, -1}});
  expect(c[0], {3, 5, 7, -1, -1, -1}, 1e-9);
}

TEST(InterpretContract, PaddedWindowsThroughFillingGathers) {
  const auto t = run(R"(
input v0 f32 [3:1]
input v1 f32 [3:1]
v2 f32 [3:1] = contract [3:m, 3:k] a(v0[3:0, 3:0] gather(sub(add(iota(0), iota(1)), 1), 3, 1, fill) fill 0.0) b(v1[3:0, 3:1])
output v2[3:1])",
                     {{1, 2, 3}, {1, 10, 100}});
  expect(t[0], {210, 321, 32}, 1e-9);
}

TEST(InterpretContract, IntegersWrapOrTrap) {
  const auto text = [](const char* type) {
    return std::string("input v0 ") + type + " [2:1]\nv1 " + type +
           " [1:1] = contract [1:m, 2:k] a(v0[1:0, 2:1]) b(v0[1:0, 2:1]) at \"aten.op\" \"m.py:1\"\noutput v1[1:1]";
  };
  expect(run(text("i32"), {{65536, 3}})[0], {9});
  refused(text("i64"), {{65536, 3}}, "leaves int32");
  expect(run(text("i64"), {{30000, 2}})[0], {900000004});
}

TEST(InterpretContract, ErrorsCoverRealisticF32Sums) {
  const uint32_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const int k = 1000;
  Values a(k), b(k);
  float sum = 0;
  for (int i = 0; i < k; ++i) {
    const float x = uniform(random), y = uniform(random);
    a[static_cast<size_t>(i)] = x, b[static_cast<size_t>(i)] = y;
    sum += x * y;
  }
  const auto t =
      run("input v0 f32 [1000:1]\ninput v1 f32 [1000:1]\nv2 f32 [1:1] = contract [1:m, 1000:k] a(v0[1:0, 1000:1]) "
          "b(v1[1:0, 1000:1])\noutput v2[1:1]",
          {a, b});
  const double difference = std::abs(sum - t[0].value[0]), allowed = tolerance(t[0], 0, base::Format::f32);
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, allowed);
  EXPECT_LT(allowed, 1e-3);
}

TEST(InterpretAttention, SoftmaxOfScoresTimesValues) {
  // Two keys; scores 0 and ln 3 with scale 1: weights 1/4 and 3/4.
  const std::string head =
      "input v0 f32 [1:2, 1:2, 1:2, 2:1]\ninput v1 f32 [1:4, 1:4, 2:2, 2:1]\ninput v2 f32 [1:4, 1:4, 2:2, 2:1]\n";
  const std::string refs = "q(v0[1:2, 1:2, 1:2, 2:1]) k(v1[1:4, 1:4, 2:2, 2:1]) v(v2[1:4, 1:4, 2:2, 2:1])";
  const auto t = run(head + "v3 f32 [1:2, 1:2, 1:2, 2:1], v4 f32 [1:1, 1:1, 1:1] = attention " + refs +
                         " scale(0.5) logsumexp\noutput v3[1:2, 1:2, 1:2, 2:1]\noutput v4[1:1, 1:1, 1:1]",
                     {{2, 0}, {0, 5, std::log(3), 7}, {4, 8, 8, 0}});
  expect(t[0], {7, 2}, 1e-6);
  expect(t[1], {std::log(4)}, 1e-6);
}

TEST(InterpretAttention, CausalMasksGroupsAndEmptyRows) {
  // 2 heads of q share 1 of k. All scores are 0 (q = 0).
  const std::string head =
      "input v0 f32 [1:4, 2:2, 2:1, 1:1]\ninput v1 f32 [1:2, 1:2, 2:1, 1:1]\ninput v2 f32 [1:2, 1:2, 2:1, 1:1]\ninput "
      "v3 b8 [2:2, 2:1]\ninput v4 f32 [2:2, 2:1]\n";
  const std::string refs = "q(v0[1:4, 2:2, 2:1, 1:1]) k(v1[1:2, 1:2, 2:1, 1:1]) v(v2[1:2, 1:2, 2:1, 1:1])";
  const std::string out = "v5 f32 [1:4, 2:2, 2:1, 1:1] = attention ",
                    end = " scale(1.0)\noutput v5[1:4, 2:2, 2:1, 1:1]";
  const std::vector<Values> in = {{0, 0, 0, 0}, {1, 1}, {10, 20}, {0, 0, 1, 0}, {0, -infinity, -infinity, -infinity}};
  expect(run(head + out + refs + " causal" + end, in)[0], {10, 15, 10, 15}, 1e-6);
  expect(run(head + out + refs + " mask(v3[1:0, 2:0, 2:2, 2:1])" + end, in)[0], {0, 10, 0, 10}, 1e-6);
  expect(run(head + out + refs + " mask(v4[1:0, 2:0, 2:2, 2:1])" + end, in)[0], {10, 0, 10, 0}, 1e-6);
}

TEST(InterpretAttention, HeadsOfOneGroupReadOneKey) {
  // 4 heads, 2 groups: heads 0, 1 see 1; heads 2, 3 see 2.
  const auto t =
      run("input v0 f32 [1:4, 4:1, 1:1, 1:1]\ninput v1 f32 [1:2, 2:1, 1:1, 1:1]\nv2 f32 [1:4, 4:1, 1:1, 1:1] = "
          "attention q(v0[1:4, 4:1, 1:1, 1:1]) "
          "k(v1[1:2, 2:1, 1:1, 1:1]) v(v1[1:2, 2:1, 1:1, 1:1]) scale(1.0)\noutput v2[1:4, 4:1, 1:1, 1:1]",
          {{3, 3, 3, 3}, {1, 2}});
  expect(t[0], {1, 1, 2, 2}, 1e-6);
}

TEST(InterpretPlace, PiecesOverFillAndBaseTheLastWins) {
  const auto t = run(R"(
input v0 f16 [2:2, 2:1]
v1 f16 [2:5, 5:1] = place [2, 5] fill(-1.0) piece(v0[2:2, 2:1] at [0:1, 0:1]) piece(v0[2:2, 2:1] at [0:1, 1:3])
v2 f16 [2:2, 2:1] = place [2, 2] base(v0[2:2, 2:1]) piece(v0[1:2, 2:1] at [1:1, 0:1])
output v1[2:5, 5:1]
output v2[2:2, 2:1])",
                     {{1, 2, 3, 4}});
  expect(t[0], {1, 1, -1, -1, 2, 3, 3, -1, -1, 4});
  expect(t[1], {1, 2, 1, 2});
  EXPECT_EQ(t[0].scale[0], 0);  // copies are exact
}

TEST(InterpretScatter, EveryModeWithDuplicates) {
  const auto scatter = [](const std::string& mode, const std::string& rule, const Values& index,
                          const char* type = "f32") {
    return run(std::string("input v0 ") + type + " [3:1]\ninput v1 i64 [4:1]\ninput v2 " + type + " [4:1]\nv3 " + type +
                   " [3:1] = scatter " + mode + " [4] base(v0[3:1]) loads(v1[4:1], v2[4:1]) value(l1) target(l0, " +
                   rule + ") at \"aten.op\" \"m.py:1\"\noutput v3[3:1]",
               {{10, 20, 30}, index, {1, 2, 3, 4}})[0];
  };
  expect(scatter("set", "trap", {0, 2, 0, 2}), {3, 20, 4});
  expect(scatter("add", "trap", {0, 2, 0, 2}), {14, 20, 36});
  expect(scatter("prod", "trap", {0, 2, 0, 2}), {30, 20, 240});
  expect(scatter("max", "skip", {0, 1, 7, -1}), {10, 20, 30});
  expect(scatter("min", "skip", {0, 1, 7, -1}), {1, 2, 30});
  expect(scatter("add", "trap", {1, 1, 1, 1}, "i64"), {10, 30, 30});
  try {
    scatter("set", "trap", {0, 3, 0, 0});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("index 3 is out of bounds for dimension 0 of size 3"), std::string::npos)
        << e.what();
  }
}

TEST(InterpretScan, SumsAndRunningMaximum) {
  const auto t = run(R"(
input v0 f32 [2:3, 3:1]
v1 f32 [2:3, 3:1] = scan sum [2, 3] over(1) loads(v0[2:3, 3:1]) value(l0)
v2 f32 [2:3, 3:1] = scan sum [2, 3] over(0) loads(v0[2:3, 3:1]) value(l0)
v3 f32 [2:3, 3:1], v4 i64 [2:3, 3:1] = scan argmax [2, 3] over(1) loads(v0[2:3, 3:1]) value(l0)
output v1[2:3, 3:1]
output v2[2:3, 3:1]
output v3[2:3, 3:1]
output v4[2:3, 3:1])",
                     {{1, 2, 3, 5, 5, 4}});
  expect(t[0], {1, 3, 6, 5, 10, 14});
  expect(t[1], {1, 2, 3, 6, 7, 7});
  expect(t[2], {1, 2, 3, 5, 5, 5});
  expect(t[3], {0, 1, 2, 0, 1, 1});  // of equals the last
}

TEST(InterpretSort, StableWithNaNLargestAndFirstK) {
  const auto t = run(R"(
input v0 f32 [5:1]
v1 f32 [5:1], v2 i64 [5:1] = sort from(v0[5:1]) over(0)
v3 f32 [3:1], v4 i64 [3:1] = sort from(v0[5:1]) over(0) descending first(3)
input v5 i64 [2:2, 2:1]
v6 i64 [2:2, 2:1], v7 i64 [2:2, 2:1] = sort from(v5[2:2, 2:1]) over(0) descending
output v1[5:1]
output v2[5:1]
output v3[3:1]
output v4[3:1]
output v6[2:2, 2:1]
output v7[2:2, 2:1])",
                     {{2, nan_value, 1, 2, -infinity}, {1, 5, 3, 5}});
  expect(t[0], {-infinity, 1, 2, 2, nan_value});
  expect(t[1], {4, 2, 0, 3, 1});
  expect(t[2], {nan_value, 2, 2});
  expect(t[3], {1, 0, 3});
  expect(t[4], {3, 5, 1, 5});
  expect(t[5], {1, 0, 0, 1});
}

TEST(InterpretNumerics, ValuesAreRoundedAsTheDeviceStoresThem) {
  const std::string text =
      "input v0 f16 [2:1]\nv1 f16 [2:1] = map [2] loads(v0[2:1]) value(mul(l0, 1.001953125))\noutput v1[2:1]";
  expect(run(text, {{1, 3}})[0], {1.001953125, 3.0078125});
  // 1 + 2^-10 has no DL16: the input itself is rounded away from zero; unrounded on request.
  expect(run(text, {{1.0009765625, 0}})[0], {1.00390625, 0});
  expect(run(text, {{1.0009765625, 0}}, {}, false)[0], {1.0009765625 * 1.001953125, 0}, 1e-12);
  // u8 wraps, bool is 0 or 1.
  const auto t =
      run("v0 u8 [] = map [] loads() value(add(250, 10))\nv1 b8 [] = map [] loads() value(lt(1, 2))\noutput "
          "v0[]\noutput v1[]",
          {});
  expect(t[0], {4});
  expect(t[1], {1});
}

TEST(InterpretNumerics, OneRegisterMayBeResultsOfSeveralTypes) {
  const auto t =
      run("input v0 f32 [1:1]\nv1 f16 [1:1], v2 f32 [1:1] = map [1] loads(v0[1:1]) value(l0, l0)\noutput "
          "v1[1:1]\noutput v2[1:1]",
          {{0.1f}});
  EXPECT_EQ(t[1].value[0], static_cast<double>(0.1f));
  EXPECT_NE(t[0].value[0], t[1].value[0]);
}

TEST(InterpretTolerance, IsAFewRoundingsOfTheTerms) {
  const auto t =
      run("input v0 f16 [1:1]\nv1 f16 [1:1] = map [1] loads(v0[1:1]) value(sub(add(l0, 1000.0), 1000.0))\nv2 f16 [1:1] "
          "= map [1] loads(v0[1:1]) "
          "value(l0)\nv3 b8 [1:1] = map [1] loads(v1[1:1]) value(gt(l0, 1.0))\noutput v1[1:1]\noutput v2[1:1]\noutput "
          "v3[1:1]",
          {{1}});
  const double allowed = tolerance(t[0], 0, base::Format::dl16);
  EXPECT_GT(allowed, 2 * 0x1p-10 + 2 * 1000 * 0x1p-24);
  EXPECT_LT(allowed, 2 * 0x1p-10 + 20 * 1000 * 0x1p-24);
  EXPECT_EQ(tolerance(t[1], 0, base::Format::dl16), 0);  // a copy
  EXPECT_GE(tolerance(t[2], 0, base::Format::dl16), 1);  // 1 > 1 may turn out either way after rounding
}

TEST(InterpretTolerance, ArgmaxOfNearEqualsIsInDoubtOnlyAfterRounding) {
  const std::string text =
      "input v0 f32 [3:1]\nv1 f32 [3:1] = map [3] loads(v0[3:1]) value(exp(l0))\nv2 f32 [], v3 i64 [] = reduce argmax "
      "[3] over(0) "
      "loads(v1[3:1]) value(l0)\noutput v3[]";
  EXPECT_EQ(run(text, {{1, 2, 3}})[0].scale[0], 0);
  EXPECT_EQ(run(text, {{1, 3, 3}})[0].scale[0], infinity);
}

TEST(InterpretInputs, ShortOrMissingOnesAreRefused) {
  const std::string text = "input v0 f32 [3:1]\nv1 f32 [3:1] = map [3] loads(v0[3:1]) value(l0)\noutput v1[3:1]";
  EXPECT_THROW(run(text, {{1, 2}}), Error);
  EXPECT_THROW(run(text, {}), Error);
  EXPECT_THROW(run(text, {{1, 2, 3}}, {1.0}), Error);
}

}  // namespace
}  // namespace spyre::graph
