// sfp steps: every operation, strips of odd sizes, rounding on store, broadcasts, traps.
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

/// y = expr over x and z (f32 [5,77]) in tiles of 2 rows, so that the last trip is clipped.
std::string elementwise(const std::string& expr, const std::string& type = "f32", const std::string& out = "f32") {
  return one_kernel({"x: in " + type + " [5,77]", "z: in " + type + " [5,77]", "y: out " + out + " [5,77]"}, "c:3",
                    "core r in 0..5 by 2 on c\n"
                    "buf a " +
                        type +
                        "[2,77] x1\n ld a = x[r, 0..77]\n"
                        "buf b " +
                        type +
                        "[2,77] x1\n ld b = z[r, 0..77]\n"
                        "buf o " +
                        out + "[2,77] x1\n sfp o = " + expr + " @loc(0)\n st y[r, 0..77] = o");
}

struct RealCase {
  const char* expr;
  double (*value)(double x, double z);
};
const RealCase real_cases[] = {
    {"a + b", [](double x, double z) { return x + z; }},
    {"a - b * 2.5", [](double x, double z) { return x - z * 2.5; }},
    {"a / b", [](double x, double z) { return x / z; }},
    {"min(a, b)", [](double x, double z) { return std::min(x, z); }},
    {"max(a, b)", [](double x, double z) { return std::max(x, z); }},
    {"abs(a)", [](double x, double) { return std::abs(x); }},
    {"-a", [](double x, double) { return -x; }},
    {"square(a)", [](double x, double) { return x * x; }},
    {"floor(a * 3)", [](double x, double) { return std::floor(x * 3); }},
    {"ceil(a * 3)", [](double x, double) { return std::ceil(x * 3); }},
    {"round(a * 4)", [](double x, double) { return std::nearbyint(x * 4); }},
    {"trunc(a * 3)", [](double x, double) { return std::trunc(x * 3); }},
    {"exp(a * 20)", [](double x, double) { return static_cast<double>(std::exp(static_cast<float>(x * 20))); }},
    {"expm1(a)", [](double x, double) { return std::expm1(x); }},
    {"log(abs(a))", [](double x, double) { return std::log(std::abs(x)); }},
    {"log1p(a)", [](double x, double) { return std::log1p(x); }},
    {"log2(abs(a))", [](double x, double) { return std::log2(std::abs(x)); }},
    {"exp2(a * 8)", [](double x, double) { return std::exp2(x * 8); }},
    {"sqrt(abs(a))", [](double x, double) { return std::sqrt(std::abs(x)); }},
    {"rsqrt(abs(a))", [](double x, double) { return 1 / std::sqrt(std::abs(x)); }},
    {"sin(a * 9)", [](double x, double) { return std::sin(x * 9); }},
    {"cos(a * 9)", [](double x, double) { return std::cos(x * 9); }},
    {"tan(a)", [](double x, double) { return std::tan(x); }},
    {"tanh(a * 3)", [](double x, double) { return std::tanh(x * 3); }},
    {"erf(a * 2)", [](double x, double) { return std::erf(x * 2); }},
    {"pow(abs(a), b)", [](double x, double z) { return std::pow(std::abs(x), z); }},
    {"fmod(a * 7, b)", [](double x, double z) { return std::fmod(static_cast<float>(x * 7), z); }},
    {"fma(a, b, a)", [](double x, double z) { return x * z + x; }},
    {"rcp(a)", [](double x, double) { return 1 / x; }},
    {"sign(a)", [](double x, double) { return static_cast<double>((x > 0) - (x < 0)); }},
    {"a < b ? a : b * 2", [](double x, double z) { return x < z ? x : z * 2; }},
    {"a >= b and not (a > 0.5) or a == b ? 1 : 0",
     [](double x, double z) { return (x >= z && !(x > 0.5)) || x == z ? 1.0 : 0.0; }},
    {"is_nan(a / (b - b)) ? 1 : 2", [](double x, double) { return x == 0 ? 1.0 : 2.0; }},
    {"gelu(a)", [](double x, double) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }},
    {"sigmoid(a)", [](double x, double) { return 1 / (1 + std::exp(-x)); }},
    {"silu(a)", [](double x, double) { return x / (1 + std::exp(-x)); }},
    {"exp(1 - min(max(a * 0.5 + b, -1), b)) * a",
     [](double x, double z) { return std::exp(1 - std::min(std::max(x * 0.5 + z, -1.0), z)) * x; }},
    {"-(2 - square(b - abs(tanh(a) * 3)))",
     [](double x, double z) { return std::pow(z - std::abs(std::tanh(x) * 3), 2) - 2; }},
    {"(a + b) * (b - a) * (a + b)", [](double x, double z) { return (x + z) * (z - x) * (x + z); }},
    {"a + b + a + b + a + b + a + b + a + b + a + b + a + b + a + b + a + b + a + b",
     [](double x, double z) { return 10 * (x + z); }},
    {"f32(iota0 * 100 + iota1)", nullptr},
};

TEST(Vector, EveryRealOperationMatchesTheHostsDoubleOnClippedOddTiles) {
  for (const auto& c : real_cases) {
    Machine m(elementwise(c.expr));
    const auto x = m.set("x", noise(1)), z = m.set("z", noise(2));
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t i = 0; i < 5 * 77; ++i) {
      const double e = c.value ? c.value(x[i], z[i]) : static_cast<double>(i / 77 % 2 * 100 + i % 77);
      ASSERT_NEAR(y[i], e, std::abs(e) * 3e-6 + 1e-6) << c.expr << " of " << x[i] << ", " << z[i];
    }
  }
}

struct IntCase {
  const char* expr;
  int64_t (*value)(int64_t x, int64_t z);
};
const IntCase int_cases[] = {
    {"a + b", [](int64_t x, int64_t z) { return x + z; }},
    {"a - b", [](int64_t x, int64_t z) { return x - z; }},
    {"a * b",
     [](int64_t x, int64_t z) { return static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(x * z))); }},
    {"a / (b or 1)", [](int64_t x, int64_t z) { return x / (z | 1); }},
    {"a div (b or 1)",
     [](int64_t x, int64_t z) {
       const int64_t d = z | 1;
       return x / d - (x % d != 0 && (x % d < 0) != (d < 0) ? 1 : 0);
     }},
    {"a mod (b or 1)",
     [](int64_t x, int64_t z) {
       const int64_t d = z | 1, r = x % d;
       return r != 0 && (r < 0) != (d < 0) ? r + d : r;
     }},
    {"a and b", [](int64_t x, int64_t z) { return x & z; }},
    {"a xor b", [](int64_t x, int64_t z) { return x ^ z; }},
    {"not a", [](int64_t x, int64_t) { return ~x; }},
    {"a shr 3", [](int64_t x, int64_t) { return x >> 3; }},
    {"a shl 2", [](int64_t x, int64_t) { return x * 4; }},
    {"max(a, b) - min(a, b)", [](int64_t x, int64_t z) { return std::abs(x - z); }},
    {"a > b ? 1 : 0", [](int64_t x, int64_t z) { return static_cast<int64_t>(x > z); }},
    {"i32(f32(a) / 3)", [](int64_t x, int64_t) { return static_cast<int64_t>(static_cast<float>(x) / 3.0f); }},
};

TEST(Vector, EveryIntegerOperationIsExact) {
  for (const auto& c : int_cases) {
    Machine m(elementwise(c.expr, "i32", "i32"));
    const auto x = m.set("x", [](int64_t i) { return static_cast<double>(i * 7919 % 100003 - 50000); });
    const auto z = m.set("z", [](int64_t i) { return static_cast<double>(i * 104729 % 2003 - 1000); });
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t i = 0; i < 5 * 77; ++i)
      ASSERT_EQ(y[i], static_cast<double>(c.value(static_cast<int64_t>(x[i]), static_cast<int64_t>(z[i]))))
          << c.expr << " of " << x[i] << ", " << z[i];
  }
}

TEST(Vector, StoresRoundToTheFormatAndOverflowToInfinity) {
  Machine m(elementwise("a * b", "f32", "dl16"));
  const auto x = m.set("x", [](int64_t i) { return i == 0 ? 3e9 : i == 1 ? -3e9 : i == 2 ? NAN : noise(1)(i) * 100; });
  const auto z = m.set("z", [](int64_t i) { return i < 3 ? 1e9 : noise(2)(i); });
  m.run_every_way();
  const auto y = m.get("y");
  EXPECT_TRUE(std::isnan(y[0]));  // +infinity's code reads as NaN
  EXPECT_EQ(y[1], -INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
  for (int64_t i = 3; i < 5 * 77; ++i)
    ASSERT_EQ(y[i], base::dl16_to_f32(base::f32_to_dl16(static_cast<float>(x[i]) * static_cast<float>(z[i]),
                                                        base::Overflow::infinity)));
}

TEST(Vector, NarrowIntegersWrapOnStore) {
  for (const char* out : {"i16", "i8"}) {
    Machine m(elementwise("a + b", "i32", out));
    const auto x = m.set("x", [](int64_t i) { return static_cast<double>(i * 700 - 100000); });
    m.set("z", [](int64_t) { return 5.0; });
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t i = 0; i < 5 * 77; ++i) {
      const auto v = static_cast<int32_t>(x[i]) + 5;
      ASSERT_EQ(y[i], out[1] == '8' ? static_cast<double>(static_cast<int8_t>(v))
                                    : static_cast<double>(static_cast<int16_t>(v)));
    }
  }
}

TEST(Vector, RowsColumnsAndSinglesBroadcast) {
  // Wide rows run one at a time, narrow ones several to a strip: both ways of spreading a value.
  for (int cols : {70, 1500}) {
    const std::string w = std::to_string(cols);
    Machine m(one_kernel(
        {"x: in dl16 [9," + w + "]", "row: in dl16 [" + w + "]", "col: in f32 [9,1]", "y: out f32 [9," + w + "]"},
        "c:1",
        "buf a dl16[9," + w + "] x1\n ld a = x[0..9, 0.." + w +
            "]\n"
            "buf r dl16[1," +
            w + "] x1\n ld r = row[0.." + w +
            "]\n"
            "buf k f32[9,1] x1\n ld k = col[0..9, 0..1]\n"
            "buf o f32[9," +
            w +
            "] x1\n"
            "sfp o = (a - k) * exp(k + s) + r * (k < 0 ? 1 : 2)\n st y[0..9, 0.." +
            w + "] = o",
        {"s: f32 in -1..1"}));
    const auto x = m.set("x", noise(1)), r = m.set("row", noise(2)), k = m.set("col", noise(3));
    m.scalar("s", 0.25);
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t i = 0; i < 9 * cols; ++i) {
      const double c = k[i / cols], e = (x[i] - c) * std::exp(c + 0.25) + r[i % cols] * (c < 0 ? 1 : 2);
      ASSERT_NEAR(y[i], e, 1e-5) << i;
    }
  }
}

/// The last strip of a row has one column, and results of two steps at once have no place of their own.
TEST(Vector, RowsThatEndInAStripOfOneColumn) {
  for (const int cols : {1025, 2049}) {
    const std::string n = std::to_string(cols);
    Machine m(one_kernel({"x: in f32 [3," + n + "]", "col: in f32 [3,1]", "y: out f32 [3," + n + "]",
                          "z: out f32 [3," + n + "]", "b: out f32 [3," + n + "]"},
                         "c:1",
                         "buf a f32[3," + n + "] x1\n ld a = x[0..3, 0.." + n +
                             "]\n buf k f32[3,1] x1\n ld k = col[0..3, 0..1]\n buf o f32[3," + n +
                             "] x1\n buf p f32[3," + n + "] x1\n sfp o, p = a + 1, a * k\n st y[0..3, 0.." + n +
                             "] = o\n st z[0..3, 0.." + n + "] = p\n buf q f32[3," + n +
                             "] x1\n sfp q = k\n st b[0..3, 0.." + n + "] = q"));
    const auto x = m.set("x", noise(1)), k = m.set("col", noise(2));
    m.run_every_way();
    const auto y = m.get("y"), z = m.get("z"), b = m.get("b");
    for (int64_t i = 0; i < 3 * cols; ++i) {
      ASSERT_NEAR(y[i], x[i] + 1, 1e-6) << i;
      ASSERT_NEAR(z[i], x[i] * k[i / cols], 1e-6) << i;
      ASSERT_EQ(b[i], k[i / cols]) << i;
    }
  }
}

TEST(Vector, ThreeDimensionsBroadcastAndReduceOverTheMiddle) {
  Machine m(one_kernel(
      {"x: in f32 [3,5,70]", "p: in f32 [3,1,70]", "q: in f32 [1,5,1]", "y: out f32 [3,5,70]", "s: out f32 [3,1,70]"},
      "c:1",
      "buf a f32[3,5,70] x1\n ld a = x[0..3, 0..5, 0..70]\n buf b f32[3,1,70] x1\n ld b = p[0..3, 0..1, 0..70]\n"
      "buf e f32[1,5,1] x1\n ld e = q[0..1, 0..5, 0..1]\n buf o f32[3,5,70] x1\n"
      "sfp o = a * b + e + f32(iota0 * 1000 + iota1 * 100 + iota2)\n st y[0..3, 0..5, 0..70] = o\n"
      "buf t f32[3,1,70] x1\n sfp.red t = max(o - e over 1)\n st s[0..3, 0..1, 0..70] = t"));
  const auto x = m.set("x", noise(1)), p = m.set("p", noise(2)), q = m.set("q", noise(3));
  m.run_every_way();
  const auto y = m.get("y"), s = m.get("s");
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t k = 0; k < 70; ++k) {
      double top = -INFINITY;
      for (int64_t j = 0; j < 5; ++j) {
        const double e = x[(i * 5 + j) * 70 + k] * p[i * 70 + k] + q[j] + static_cast<double>(i * 1000 + j * 100 + k);
        ASSERT_NEAR(y[(i * 5 + j) * 70 + k], e, 1e-3);
        top = std::max(top, e - q[j]);
      }
      ASSERT_NEAR(s[i * 70 + k], top, 1e-3);
    }
}

TEST(Vector, ResultsOfOneStepMayExchangeTheirBuffers) {
  Machine m(one_kernel({"x: in f32 [3,100]", "z: in f32 [3,100]", "y: out f32 [3,100]"}, "c:1",
                       "buf a f32[3,100] x1\n ld a = x[0..3, 0..100]\n buf b f32[3,100] x1\n ld b = z[0..3, 0..100]\n"
                       "sfp a, b = b, a\n sfp a = a * 3 + b\n st y[0..3, 0..100] = a"));
  const auto x = m.set("x", noise(1)), z = m.set("z", noise(2));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 300; ++i) ASSERT_NEAR(y[i], z[i] * 3 + x[i], 1e-6) << i;
}

TEST(Vector, PhiloxDependsOnSeedOffsetAndIndexOnly) {
  auto make = [](int tile) {
    const std::string t = std::to_string(tile);
    return one_kernel({"y: out i32 [4,64]"}, "c:1",
                      "for r in 0..4 by " + t + " {\n buf o i32[" + t +
                          ",64] x2\n"
                          "sfp o = philox(seed, 3, int(64*r.start) + iota0 * 64 + iota1, 2)\n st y[r, 0..64] = o }",
                      {"seed: i32 in 0..1000"});
  };
  Machine a(make(1)), b(make(3));
  a.scalar("seed", 42), b.scalar("seed", 42);
  a.run_every_way(), b.run();
  EXPECT_EQ(a.get("y"), b.get("y"));
  b.scalar("seed", 43);
  b.run();
  EXPECT_NE(a.get("y"), b.get("y"));
}

void expect_trap(Machine& m, const std::string& word) {
  for (const RunOptions& options : {RunOptions{}, RunOptions{.checker = true}, RunOptions{.random_order = true}}) {
    try {
      m.run(options);
      FAIL() << "no trap: " << word;
    } catch (const Error& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("aten.test (test.py:7)"), std::string::npos) << text;
      EXPECT_NE(text.find(word), std::string::npos) << text;
    }
  }
}

TEST(Vector, MarkedOperationsTrapWhereTheyLeaveInt32) {
  struct Case {
    std::string expr, word;
  };
  for (const Case& c : {Case{"a +! b", "+"}, {"a -! b", "-"}, {"a *! b", "*"}, {"-!a", "-"}, {"abs!(a)", "abs"}}) {
    const auto& [expr, word] = c;
    Machine m(elementwise(expr, "i32", "i32"));
    m.set("x", [](int64_t i) { return i % 3 * 1.0; }), m.set("z", [](int64_t i) { return i % 5 * 1.0; });
    m.run_every_way();
    m.set("x", [](int64_t i) { return i == 200 ? -2147483648.0 : 1.0; });
    m.set("z", [&](int64_t i) { return i == 200 ? (c.expr == "a +! b" ? -1.0 : 3.0) : 1.0; });
    expect_trap(m, word);
  }
  Machine cast(elementwise("cast!(a)", "f32", "i32"));
  cast.set("x", [](int64_t i) { return i * 1000.0; }), cast.set("z", noise(1));
  cast.run();
  cast.set("x", [](int64_t i) { return i == 7 ? NAN : 1.0; });
  expect_trap(cast, "cast");
  cast.set("x", [](int64_t i) { return i == 7 ? 2147483648.0 : 1.0; });
  expect_trap(cast, "cast");
}

TEST(Vector, ATileInMemoryGoesWithBoxesOfMoreDimensions) {
  Machine m(
      one_kernel({"x: in f32 [3,5,64]", "w: in f32 [5,64]", "y: out f32 [3,5,64]"}, "c:1",
                 "buf a f32[3,5,64] x1\n ld a = x[0..3, 0..5, 0..64]\n buf b f32[5,64] x1\n ld b = w[0..5, 0..64]\n"
                 "buf o f32[3,5,64] x1\n sfp o = a + b\n st y[0..3, 0..5, 0..64] = o"));
  const auto x = m.set("x", noise(1)), w = m.set("w", noise(2));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 3 * 5 * 64; ++i) ASSERT_EQ(y[i], static_cast<float>(x[i] + w[i % 320]));
}

}  // namespace
}  // namespace spyre::card
