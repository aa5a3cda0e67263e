// sfp.red, sfp.scan, sort, merge, topk: odd sizes, tiles joined through states, NaN and infinities.
#include <algorithm>
#include <numeric>

#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

constexpr int64_t rows = 7, cols = 1333;

/// Reduces x[7,1333] over dimension 1 in tiles of 512 columns (the last one clipped), state carried in text as `step`.
std::string along_rows(const std::string& type, const std::string& declare, const std::string& step,
                       const std::string& out) {
  return one_kernel({"x: in " + type + " [7,1333]", out}, "c:1",
                    declare + "for t in 0..1333 by 512 {\n buf a " + type + "[7,512] x2\n ld a = x[0..7, t]\n" + step +
                        "\n}\n" + "st y[0..7, 0..1] = s");
}
/// Over dimension 0 in tiles of 3 rows.
std::string down_columns(const std::string& type, const std::string& declare, const std::string& step,
                         const std::string& out) {
  return one_kernel({"x: in " + type + " [7,1333]", out}, "c:1",
                    declare + "for t in 0..7 by 3 {\n buf a " + type + "[3,1333] x2\n ld a = x[t, 0..1333]\n" + step +
                        "\n}\n" + "st y[0..1, 0..1333] = s");
}

struct SumCase {
  const char* name;
  const char* start;
  double (*join)(double a, double b);
  double tolerance;
};
const SumCase sum_cases[] = {
    {"sum", "0", [](double a, double b) { return a + b; }, 1e-4},
    {"prod", "1", [](double a, double b) { return a * b; }, 1e-4},
    {"max", "-inf", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }, 0},
    {"min", "inf", [](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }, 0},
};

TEST(Reduce, SumsProductsAndExtremesBothWays) {
  for (const auto& c : sum_cases)
    for (bool nan : {false, true}) {
      auto value = [&](int64_t i) {
        if (nan && i == 3 * cols + 700) return static_cast<double>(NAN);
        return std::string(c.name) == "prod" ? 1 + noise(1)(i) * 0.05 : noise(1)(i);
      };
      const std::string name = c.name, start = c.start;
      Machine a(along_rows("f32", "buf s f32[7,1] x1\n sfp s = " + start + "\n",
                           "sfp.red s = " + name + "(s, a[_, t] over 1)", "y: out f32 [7,1]"));
      const auto x = a.set("x", value);
      a.run_every_way();
      auto y = a.get("y");
      for (int64_t r = 0; r < rows; ++r) {
        double e = x[r * cols];
        for (int64_t i = 1; i < cols; ++i) e = c.join(e, x[r * cols + i]);
        if (std::isnan(e))
          EXPECT_TRUE(std::isnan(y[r])) << name;
        else
          EXPECT_NEAR(y[r], e, std::abs(e) * c.tolerance + c.tolerance) << name;
      }
      Machine d(down_columns("f32", "buf s f32[1,1333] x1\n sfp s = " + start + "\n",
                             "sfp.red s = " + name + "(s, a[t, _] over 0)", "y: out f32 [1,1333]"));
      d.set("x", value);
      d.run_every_way();
      y = d.get("y");
      for (int64_t i = 0; i < cols; ++i) {
        double e = x[i];
        for (int64_t r = 1; r < rows; ++r) e = c.join(e, x[r * cols + i]);
        if (std::isnan(e))
          EXPECT_TRUE(std::isnan(y[i])) << name;
        else
          EXPECT_NEAR(y[i], e, std::abs(e) * c.tolerance + c.tolerance) << name;
      }
    }
}

TEST(Reduce, ArgmaxTakesTheFirstOfEqualsAndNanFirst) {
  for (const char* name : {"argmax", "argmin"}) {
    const std::string text =
        one_kernel({"x: in f32 [7,333]", "y: out i32 [7,1]"}, "c:1",
                   "buf a f32[7,333] x1\n ld a = x[0..7, 0..333]\n buf v f32[7,1] x1\n buf i i32[7,1] x1\n"
                   "sfp.red v, i = " +
                       std::string(name) + "(a over 1)\n st y[0..7, 0..1] = i");
    Machine m(text);
    const auto x = m.set("x", [](int64_t i) {
      if (i / 333 == 6 && i % 333 >= 50 && i % 50 == 0) return static_cast<double>(NAN);
      return std::floor(noise(1)(i) * 20);
    });
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t r = 0; r < 7; ++r) {
      int64_t best = 0;
      for (int64_t i = 1; i < 333; ++i) {
        const double v = x[r * 333 + i], b = x[r * 333 + best];
        if (std::isnan(b)) break;
        if (std::isnan(v) || (name[3] == 'm' && name[4] == 'a' ? v > b : v < b)) best = i;
      }
      EXPECT_EQ(y[r], static_cast<double>(best)) << name << " row " << r;
    }
  }
}

TEST(Reduce, WelfordAndLogsumexpJoinTiles) {
  Machine w(along_rows("dl16", "buf s f32[7,1] x1\n buf m2 f32[7,1] x1\n buf n f32[7,1] x1\n sfp s, m2, n = 0, 0, 0\n",
                       "sfp.red s, m2, n = welford(s, m2, n, a[_, t] over 1)\n if t.last { sfp s = m2 / n }",
                       "y: out f32 [7,1]"));
  const auto x = w.set("x", [](int64_t i) { return 30 + noise(5)(i); });
  w.run_every_way();
  auto y = w.get("y");
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < cols; ++i) mean += x[r * cols + i] / cols;
    for (int64_t i = 0; i < cols; ++i) var += (x[r * cols + i] - mean) * (x[r * cols + i] - mean) / cols;
    EXPECT_NEAR(y[r], var, var * 1e-4);
  }
  Machine l(
      along_rows("f32", "buf s f32[7,1] x1\n buf e f32[7,1] x1\n sfp s, e = -inf, 0\n",
                 "sfp.red s, e = logsumexp(s, e, a[_, t] over 1)\n if t.last { sfp s = s == -inf ? -inf : s + log(e) }",
                 "y: out f32 [7,1]"));
  const auto z = l.set("x", [](int64_t i) { return i / cols == 2 ? -INFINITY : noise(5)(i) * 40; });
  l.run_every_way();
  y = l.get("y");
  for (int64_t r = 0; r < rows; ++r) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < cols; ++i) top = std::max(top, z[r * cols + i]);
    for (int64_t i = 0; i < cols; ++i) sum += std::exp(z[r * cols + i] - top);
    if (r == 2)
      EXPECT_EQ(y[r], -INFINITY);
    else
      EXPECT_NEAR(y[r], top + std::log(sum), 1e-4);
  }
}

TEST(Reduce, AnyAndAllGiveOneOrZero) {
  for (const std::string name : {"any", "all"}) {
    Machine m(one_kernel({"x: in f32 [5,90]", "y: out i32 [5,1]"}, "c:1",
                         "buf a f32[5,90] x1\n ld a = x[0..5, 0..90]\n buf s i32[5,1] x1\n sfp.red s = " + name +
                             "(a > 0 over 1)\n st y[0..5, 0..1] = s"));
    m.set("x", [](int64_t i) { return i / 90 == 1 ? -1.0 : i / 90 == 2 ? 1.0 : i % 90 == 40 ? 1.0 : -1.0; });
    m.run_every_way();
    const std::vector<double> any{1, 0, 1, 1, 1}, all{0, 0, 1, 0, 0};
    EXPECT_EQ(m.get("y"), name == "any" ? any : all);
  }
}

TEST(Reduce, MarkedIntegerSumTrapsOnTheExactResultOnly) {
  Machine m(along_rows("i32", "buf s i32[7,1] x1\n sfp s = 0\n", "sfp.red s = sum!(s, a[_, t] over 1) @loc(0)",
                       "y: out i32 [7,1]"));
  // Passes int32 on the way inside a tile, but ends inside it.
  m.set("x", [](int64_t i) { return i % cols < 2 ? 2147483647.0 : i % cols < 4 ? -2147483647.0 : 1.0; });
  m.run_every_way();
  EXPECT_EQ(m.get("y")[0], static_cast<double>(cols - 4));
  m.set("x", [](int64_t i) { return i % cols < 2 ? 2147483647.0 : 0.0; });
  EXPECT_THROW(m.run(), Error);
}

TEST(Scan, EveryMonoidCarriesFromTileToTile) {
  for (const auto& c : sum_cases) {
    const std::string name = c.name;
    Machine m(one_kernel({"x: in f32 [3,1333]", "y: out f32 [3,1333]"}, "c:1",
                         "buf k f32[3,1] x1\n sfp k = " + std::string(c.start) +
                             "\nfor t in 0..1333 by 512 {\n buf a f32[3,512] x2\n"
                             "ld a = x[0..3, t]\n buf o f32[3,512] x2\n sfp.scan o[_, t], k = " +
                             name +
                             "(a[_, t], k)\n"
                             "st y[0..3, t] = o }"));
    const auto x = m.set("x", [&](int64_t i) { return name == "prod" ? 1 + noise(3)(i) * 0.05 : noise(3)(i); });
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t r = 0; r < 3; ++r) {
      double e = x[r * cols];
      for (int64_t i = 0; i < cols; ++i) {
        if (i) e = c.join(e, x[r * cols + i]);
        ASSERT_NEAR(y[r * cols + i], e, std::abs(e) * c.tolerance + c.tolerance) << name << i;
      }
    }
  }
}

bool before(double a, double b, bool descending) {
  if (std::isnan(a) || std::isnan(b))
    return descending ? std::isnan(a) && !std::isnan(b) : !std::isnan(a) && std::isnan(b);
  return descending ? a > b : a < b;
}

TEST(Sort, IsStableWithNanAboveAll) {
  for (const std::string type : {"dl16", "f32", "i32", "i8"})
    for (bool descending : {false, true}) {
      Machine m(one_kernel({"x: in " + type + " [3,301]", "y: out " + type + " [3,301]", "i: out i32 [3,301]"}, "c:1",
                           "buf a " + type + "[3,301] x1\n ld a = x[0..3, 0..301]\n buf v " + type +
                               "[3,301] x1\n buf ix i32[3,301] x1\n"
                               "sfp.sort v, ix = a" +
                               (descending ? " descending" : "") +
                               "\n st y[0..3, 0..301] = v\n st i[0..3, 0..301] = ix"));
      const bool real = type == "dl16" || type == "f32";
      const auto x = m.set("x", [&](int64_t i) {
        return real && i % 50 == 9 ? static_cast<double>(NAN) : std::floor(noise(6)(i) * 30);
      });
      m.run_every_way();
      const auto y = m.get("y"), ix = m.get("i");
      for (int64_t r = 0; r < 3; ++r) {
        std::vector<int64_t> order(301);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return before(x[r * 301 + a], x[r * 301 + b], descending); });
        for (int64_t k = 0; k < 301; ++k) {
          ASSERT_EQ(ix[r * 301 + k], static_cast<double>(order[k])) << type << r << " " << k;
          const double e = x[r * 301 + order[k]];
          ASSERT_TRUE(y[r * 301 + k] == e || (std::isnan(e) && std::isnan(y[r * 301 + k])));
        }
      }
    }
}

TEST(Sort, MergeJoinsTwoSortedHalves) {
  Machine m(one_kernel({"x: in f32 [1,256]", "y: out f32 [1,256]"}, "c:1",
                       "buf a f32[1,256] x1\n ld a = x[0..1, 0..256]\n buf v f32[1,256] x1\n buf ix i32[1,256] x1\n "
                       "buf j i32[1,256] x1\n"
                       "sfp j = iota1\n sfp.merge v, ix = a, j\n st y[0..1, 0..256] = v"));
  m.set("x", [](int64_t i) { return i < 128 ? i * 2.0 : (i - 128) * 3.0 - 20; });
  m.run_every_way();
  const auto y = m.get("y");
  EXPECT_TRUE(std::is_sorted(y.begin(), y.end()));
}

TEST(Sort, TopKKeepsItsBestOverTilesAndSkipsEmptyPlaces) {
  Machine m(
      one_kernel({"x: in f32 [2,500]", "y: out f32 [2,5]", "i: out i32 [2,5]"}, "c:1",
                 "buf v f32[2,5] x1\n buf ix i32[2,5] x1\n sfp v = -inf\n sfp ix = -1\n"
                 "for t in 0..500 by 128 {\n buf a f32[2,128] x2\n ld a = x[0..2, t] fill -inf\n buf j i32[2,128] x2\n"
                 "sfp j = int(t.start) + iota1\n sfp.topk v, ix = a[_, t], j[_, t] descending }\n"
                 "st y[0..2, 0..5] = v\n st i[0..2, 0..5] = ix"));
  const auto x = m.set("x", [](int64_t i) { return i >= 500 ? -INFINITY : std::floor(noise(8)(i) * 50); });
  m.run_every_way();
  const auto y = m.get("y"), ix = m.get("i");
  for (int64_t r = 0; r < 2; ++r) {
    std::vector<int64_t> order(500);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x[r * 500 + a] > x[r * 500 + b]; });
    for (int64_t k = 0; k < 5; ++k) {
      EXPECT_EQ(y[r * 5 + k], x[r * 500 + order[k]]);
      EXPECT_EQ(ix[r * 5 + k], static_cast<double>(order[k]));
    }
  }
}

}  // namespace
}  // namespace spyre::card
