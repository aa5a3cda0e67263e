// pt, sfp.mm and the ring: odd sizes, transposed operands, every operand format, collectives.
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

struct MatMulCase {
  const char* operands;
  const char* acc;
  const char* step;  ///< "pt" or "sfp.mm"
  bool at, bt;
  int64_t m, k, n;
};

class MatMul : public testing::TestWithParam<MatMulCase> {};

TEST_P(MatMul, MatchesTheDoubleProduct) {
  const auto& c = GetParam();
  const std::string f = c.operands, acc = c.acc;
  auto shape = [](int64_t r, int64_t s) { return "[" + std::to_string(r) + "," + std::to_string(s) + "]"; };
  auto upto = [](int64_t n) { return "0.." + std::to_string(n); };
  // K in tiles of 64 with a clipped last one.
  const std::string a_buf = c.at ? shape(64, c.m) : shape(c.m, 64), b_buf = c.bt ? shape(c.n, 64) : shape(64, c.n);
  const std::string a_ref = c.at ? "[k, " + upto(c.m) + "]" : "[" + upto(c.m) + ", k]";
  const std::string b_ref = c.bt ? "[" + upto(c.n) + ", k]" : "[k, " + upto(c.n) + "]";
  Machine m(one_kernel(
      {"x: in " + f + " " + (c.at ? shape(c.k, c.m) : shape(c.m, c.k)),
       "w: in " + f + " " + (c.bt ? shape(c.n, c.k) : shape(c.k, c.n)), "y: out " + acc + " " + shape(c.m, c.n)},
      "c:1",
      "buf s " + acc + shape(c.m, c.n) + " x1\n for k in " + upto(c.k) + " by 64 {\n buf a " + f + a_buf +
          " x2\n ld a = x" + a_ref + "\n buf b " + f + b_buf + " x2\n ld b = w" + b_ref + "\n " + c.step + " s += a" +
          (c.at ? "^T" : "") + " * b" + (c.bt ? "^T" : "") + " init(k) }\n st y[" + upto(c.m) + ", " + upto(c.n) +
          "] = s"));
  const bool integer = acc == "i32";
  auto value = [&](uint64_t seed) {
    return [=](int64_t i) { return integer ? std::floor(noise(seed)(i) * 100) : noise(seed)(i); };
  };
  const auto x = m.set("x", value(1)), w = m.set("w", value(2));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0, scale = 0;
      for (int64_t k = 0; k < c.k; ++k) {
        const double t = x[c.at ? k * c.m + i : i * c.k + k] * w[c.bt ? j * c.k + k : k * c.n + j];
        sum += t, scale += std::abs(t);
      }
      ASSERT_NEAR(y[i * c.n + j], sum, integer ? 0 : scale * 1e-6 + 1e-12) << i << "," << j;
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, MatMul,
                         testing::Values(MatMulCase{"dl16", "f32", "pt", false, false, 13, 200, 100},
                                         MatMulCase{"dl16", "f32", "pt", false, true, 64, 200, 70},
                                         MatMulCase{"dl16", "f32", "pt", true, false, 20, 200, 70},
                                         MatMulCase{"dl16", "f32", "pt", false, false, 1, 512, 300},
                                         MatMulCase{"dl16", "f32", "pt", false, true, 1, 130, 65},
                                         MatMulCase{"f16", "f32", "pt", false, false, 9, 64, 64},
                                         MatMulCase{"e4m3", "f32", "pt", false, false, 9, 200, 64},
                                         MatMulCase{"e5m2", "f32", "pt", false, true, 9, 200, 64},
                                         MatMulCase{"i8", "i32", "pt", false, false, 9, 200, 70},
                                         MatMulCase{"f32", "f32", "sfp.mm", false, false, 17, 100, 33},
                                         MatMulCase{"f32", "f32", "sfp.mm", true, true, 17, 100, 33},
                                         MatMulCase{"i32", "i32", "sfp.mm", false, false, 17, 100, 33},
                                         MatMulCase{"i32", "i32", "sfp.mm", true, true, 5, 100, 33}));

/// Operands that are parts of loaded tiles: within a stick, from a stick on, across sticks; of rows, too. Two products
/// of one tile, as heads of an attention.
TEST(MatMulOfParts, ReadsTheLanesItNames) {
  const int64_t rows = 13, lanes = 192, n = 5;
  for (const auto& [first, width] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 32}, {32, 32}, {64, 64}, {64, 100}, {96, 96}, {48, 16}, {40, 24}, {7, 150}}) {
    const std::string part = std::to_string(first) + "..", end = std::to_string(first + width);
    Machine m(
        one_kernel({"x: in dl16 [13,192]", "w: in dl16 [5,192]", "y: out f32 [13,5]", "z: out f32 [4,5]"}, "c:1",
                   "buf a dl16[13,192] x1\n ld a = x[0..13, 0..192]\n buf b dl16[5,192] x1\n ld b = w[0..5, 0..192]\n"
                   " buf s f32[13,5] x1\n pt s = a[_, " +
                       part + end + "] * b[_, " + part + end +
                       "]^T\n st y[0..13, 0..5] = s\n"
                       " buf t f32[4,5] x1\n pt t = a[6..10, " +
                       part + end + "] * b[_, " + part + end + "]^T\n st z[0..4, 0..5] = t"));
    const auto x = m.set("x", noise(1)), w = m.set("w", noise(2));
    m.run_every_way();
    const auto y = m.get("y"), z = m.get("z");
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t k = first; k < first + width; ++k) sum += x[i * lanes + k] * w[j * lanes + k];
        ASSERT_NEAR(y[i * n + j], sum, 1e-4) << first << " " << width << ": " << i << "," << j;
        if (i < 6 || i >= 10) continue;
        ASSERT_NEAR(z[(i - 6) * n + j], sum, 1e-4) << first << " " << width;
      }
  }
}

TEST(Ring, ShiftMovesValuesToHigherCoordinates) {
  for (int by : {1, 3, -1}) {
    Machine m(one_kernel({"x: in f32 [8,40]", "y: out f32 [8,40]"}, "a:2, b:4",
                         "core r in 0..8 by 4 on a\n core q in r by 1 on b\n buf s f32[1,40] x1\n ld s = x[q, 0..40]\n "
                         "buf t f32[1,40] x1\n"
                         "ring.shift t = s over b by " +
                             std::to_string(by) + "\n st y[q, 0..40] = t"));
    const auto x = m.set("x", noise(1));
    m.run_every_way();
    const auto y = m.get("y");
    for (int64_t i = 0; i < 320; ++i) {
      const int64_t row = i / 40, from = row / 4 * 4 + ((row % 4 - by) % 4 + 4) % 4;
      ASSERT_EQ(y[i], x[from * 40 + i % 40]) << by;
    }
  }
}

TEST(Ring, PartialSumsReachAllCores) {
  Machine m(one_kernel({"x: in f32 [6,70]", "y: out f32 [6,70]"}, "b:6",
                       "core r in 0..6 by 1 on b\n buf s f32[1,70] x1\n ld s = x[r, 0..70]\n psum s over b to all\n st "
                       "y[r, 0..70] = s"));
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 420; ++i) {
    float sum = static_cast<float>(x[i % 70]);
    for (int64_t r = 1; r < 6; ++r) sum += static_cast<float>(x[r * 70 + i % 70]);
    ASSERT_EQ(y[i], static_cast<double>(sum));
  }
}

TEST(Ring, RemapRedistributesRowsToColumnsBetweenNests) {
  const std::string text = R"(
sym x: in f32 [24,256]
sym y: out f32 [24,256]
kernel k(x: in f32 [24,256], y: out f32 [24,256]) cores 8 {
  buf whole f32[3,256] x1
  buf other f32[24,32] x1
  grid(a:8) {
    core r in 0..24 by 3 on a
    ld whole = x[r, 0..256]
    sfp whole = whole + f32(int(r.start))
  }
  grid(b:8) {
    core q in 0..256 by 32 on b
    ring.remap other = whole from(r@0, _) to(_, q)
    sfp other = other * 2
    st y[0..24, q] = other
  }
}
call k(x, y)
)";
  Machine m(text);
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 24 * 256; ++i)
    ASSERT_EQ(y[i], static_cast<double>((static_cast<float>(x[i]) + static_cast<float>(i / 256 / 3 * 3)) * 2)) << i;
}

TEST(Ring, LoopsAroundCollectivesRunTripByTrip) {
  // Each trip passes the running row on: after four trips every core has added all rows of its group in its own order.
  Machine m(one_kernel(
      {"x: in i32 [4,33]", "y: out i32 [4,33]"}, "b:4",
      "core r in 0..4 by 1 on b\n buf s i32[1,33] x1\n ld s = x[r, 0..33]\n buf sum i32[1,33] x1\n sfp sum = 0\n"
      "for t in 0..4 by 1 {\n sfp sum = sum * 3 + s\n buf n i32[1,33] x2\n ring.shift n = s over b by 1\n sfp s = n }\n"
      "st y[r, 0..33] = sum"));
  const auto x = m.set("x", [](int64_t i) { return static_cast<double>(i % 17); });
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 132; ++i) {
    double e = 0;
    for (int64_t t = 0; t < 4; ++t) e = e * 3 + x[((i / 33 - t) % 4 + 4) % 4 * 33 + i % 33];
    ASSERT_EQ(y[i], e);
  }
}

}  // namespace
}  // namespace spyre::card
