// Results that go to memory without a stop in LX, and tiles decoded once for several steps: the same bits as in the
// modes that do neither.
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

/// `body` makes and stores o from v, tiles of 4 rows of x; the last trip is clipped when rows don't divide.
std::string tiles(int rows, int cols, const std::string& body, const std::string& y = "out") {
  const std::string n = std::to_string(cols), r = std::to_string(rows);
  return one_kernel({"x: in dl16 [" + r + "," + n + "]", "y: " + y + " dl16 [" + r + "," + n + "]"}, "c:3",
                    "core r in 0.." + r + " by 12 on c\n for t in r by 4 {\n buf v dl16[4," + n +
                        "] x2\n ld v = x[t, 0.." + n + "]\n buf o dl16[4," + n + "] x2\n buf e f32[4," + n +
                        "] x2\n buf m f32[4,1] x2\n" + body + "\n }");
}

void same_in_every_way(const std::string& text) {
  SCOPED_TRACE(text);
  Machine m(text);
  m.set("x", noise(3));
  for (const auto& s : m.program().symbols)
    if (s.name == "w") m.set("w", noise(5));
  m.run_every_way();
}

const std::string store = "\n st y[t, 0..";

TEST(StoreForward, WholeAndClippedTilesOfManyWidths) {
  for (int cols : {64, 77, 128, 192, 320, 512, 1024, 1088, 2048, 12288})
    for (int rows : {31, 36})
      same_in_every_way(tiles(rows, cols, "sfp o = v * 2 + 1" + store + std::to_string(cols) + "] = o"));
}

TEST(StoreForward, SeveralStepsReadOneTile) {
  same_in_every_way(tiles(36, 1024,
                          "sfp.red m = max(v over 1)\n sfp e = exp(v - m)\n sfp.red m = sum(e over 1)\n sfp o = e / m" +
                              store + "1024] = o"));
}

TEST(StoreForward, AResultThatIsReadAgainStaysInLx) {
  same_in_every_way(one_kernel({"x: in dl16 [24,128]", "y: out dl16 [24,128]", "z: out dl16 [24,128]"}, "c:2",
                               "core r in 0..24 by 12 on c\n for t in r by 4 {\n buf v dl16[4,128] x2\n"
                               "ld v = x[t, 0..128]\n buf o dl16[4,128] x2\n sfp o = v * 2\n st y[t, 0..128] = o\n"
                               "buf p dl16[4,128] x2\n sfp p = o + v\n st z[t, 0..128] = p\n }"));
}

TEST(StoreForward, OneValuePerRowAndConstants) {
  same_in_every_way(tiles(36, 128, "sfp.red m = sum(v over 1)\n sfp o = m" + store + "128] = o"));
  same_in_every_way(tiles(36, 128, "sfp o = 0.25" + store + "128] = o"));
}

TEST(StoreForward, InPlace) {
  const std::string text = one_kernel({"x: inout dl16 [24,256]"}, "c:2",
                                      "core r in 0..24 by 12 on c\n for t in r by 4 {\n buf v dl16[4,256] x2\n"
                                      "ld v = x[t, 0..256]\n buf o dl16[4,256] x2\n sfp o = v * v + 0.5\n"
                                      "st x[t, 0..256] = o\n }");
  same_in_every_way(text);
}

TEST(StoreForward, ATileThatStaysForSomeTripsAndThenMoves) {
  same_in_every_way(
      one_kernel({"x: in dl16 [24,128]", "w: in dl16 [24,128]", "y: out dl16 [4,24,128]"}, "c:2",
                 "core r in 0..24 by 12 on c\n for t in r by 4 {\n for u in 0..4 by 1 {\n"
                 "buf k dl16[4,128] x2\n ld k = w[t, 0..128]\n buf v dl16[4,128] x2\n"
                 "ld v = x[t, 0..128]\n buf e f32[4,128] x2\n sfp e = v * k + f32(u.trip)\n buf o dl16[4,128] x2\n"
                 "sfp o = e + k\n st y[u, t, 0..128] = o\n }\n }"));
}

TEST(StoreForward, ResultsOf32BitsOverWhatTheyAreMadeFrom) {
  for (const int cols : {100, 128, 1100}) {
    const std::string n = std::to_string(cols);
    same_in_every_way(tiles(36, cols,
                            "sfp e = v * 2\n sfp e = exp(e - v) + e\n sfp e[1 ..+ 2, _] = e[1 ..+ 2, _] * e[1 ..+ 2, "
                            "_]\n sfp e[_, 3 ..+ 50] = e[_, 3 ..+ 50] - 1\n buf i i32[4," +
                                n + "] x2\n sfp i = i32(e * 0.01)\n sfp i = i + i * 3\n sfp o = f32(i) + e" + store +
                                n + "] = o"));
  }
}

/// Two items of 12 rows whose rows lie between each other's: even steps within an item only.
const std::string merged =
    "dl16 [24,128] geo{dl16 n=3072 d=3072 (128,12,1,12)*256 (64,2,1,2)*128 (1536,2,1,2)*64 (1,64,1,64)*1}";
/// Sticks that hold 32 of 64 lanes, as a result of heads of 32 does.
const std::string half_sticks = "dl16 [24,128] geo{dl16 n=3072 d=6144 (128,24,1,24)*64 (32,4,1,4)*1536 (1,32,1,64)*1}";

TEST(StoreForward, RowsOfMergedBatchesAndHalfFilledSticks) {
  for (const auto& x : {merged, half_sticks, std::string("dl16 [24,128]")})
    for (const auto& y : {merged, half_sticks})
      for (int rows : {4, 5})  // 4 divides an item's rows, 5 crosses from one to the other
        same_in_every_way(one_kernel({"x: in " + x, "y: out " + y}, "c:2",
                                     "core r in 0..24 by 12 on c\n for t in r by " + std::to_string(rows) +
                                         " {\n buf v dl16[" + std::to_string(rows) + ",128] x2\n" +
                                         "ld v = x[t, 0..128]\n buf o dl16[" + std::to_string(rows) + ",128] x2\n" +
                                         "sfp o[0 ..+ t.size, _] = v[0 ..+ t.size, _] * 2\n" +
                                         "st y[t, 0..128] = o[0 ..+ t.size, _]\n }"));
}

TEST(StoreForward, ProductsOfHalfFilledSticksAndMergedBatches) {
  for (const auto& x : {merged, half_sticks})
    for (const std::string& transposed : {std::string(), std::string("^T")}) {
      const std::string text = one_kernel(
          {"x: in " + x, "w: in " + half_sticks,
           "y: out dl16 [24," + std::string(transposed.empty() ? "128" : "24") + "]"},
          "c:6",
          transposed.empty() ? "core r in 0..24 by 4 on c\n buf a dl16[4,24] x1\n ld a = x[r, 0..24]\n"
                               "buf b dl16[24,128] x1\n ld b = w[0..24, 0..128] share(c)\n buf acc f32[4,128] x1\n"
                               "pt acc = a * b\n buf o dl16[4,128] x1\n sfp o = acc\n st y[r, 0..128] = o"
                             : "core r in 0..24 by 4 on c\n buf a dl16[4,128] x1\n ld a = x[r, 0..128]\n"
                               "buf b dl16[24,128] x1\n ld b = w[0..24, 0..128] share(c)\n buf acc f32[4,24] x1\n"
                               "pt acc = a * b^T\n buf o dl16[4,24] x1\n sfp o = acc\n st y[r, 0..24] = o");
      same_in_every_way(text);
    }
}

TEST(StoreForward, ProductsOverSticksOfAnyNumberOfLanes) {
  for (int lanes : {8, 40, 48, 56})
    for (int cores : {1, 3})  // one core reads its tile once, and packs it block by block
      for (const std::string& t : {std::string(), std::string("^T")}) {
        const std::string w = std::to_string(12 * lanes), l = std::to_string(lanes), rows = std::to_string(12 / cores);
        const std::string x = "dl16 [12," + w + "] geo{dl16 n=" + std::to_string(144 * lanes) + " d=9216 (" + w +
                              ",12,1,12)*64 (" + l + ",12,1,12)*768 (1," + l + ",1,64)*1}";
        const std::string cols = t.empty() ? w : "12", depth = t.empty() ? "12" : w;
        const std::string text =
            one_kernel({"x: in " + x, "w: in " + x, "y: out dl16 [12," + cols + "]"}, "c:" + std::to_string(cores),
                       "core r in 0..12 by " + rows + " on c\n buf a dl16[" + rows + "," + depth +
                           "] x1\n ld a = x[r, 0.." + depth + "]\n buf b dl16[12," + w + "] x1\n ld b = w[0..12, 0.." +
                           w + "]\n buf acc f32[" + rows + "," + cols + "] x1\n pt acc = a * b" + t + "\n buf o dl16[" +
                           rows + "," + cols + "] x1\n sfp o = acc\n st y[r, 0.." + cols + "] = o");
        same_in_every_way(text);
      }
}

/// Codes that products, reductions and vector steps read, but nobody stores: kept as values, rounded like codes.
TEST(StoreForward, ResultsThatAreReadAsNumbersAreRoundedLikeCodes) {
  for (const int cols : {64, 130, 512, 1700}) {  // the last one is too large to be kept
    const std::string n = std::to_string(cols);
    std::string body = R"(
      buf t dl16[N,64] x1
      ld t = w[0..N, 0..64]
      for r in 0..40 by 20 {
        buf v f32[20,N] x1
        ld v = x[r, 0..N]
        buf p dl16[20,N] x1
        sfp p = (v - 0.25) * 1000 * exp(v * 40)
        buf m f32[20,1] x1
        sfp.red m = sum(p over 1)
        st s[r, 0..1] = m
        buf q f32[20,N] x1
        sfp q = p * 0.5
        st z[r, 0..N] = q
        buf acc f32[20,64] x1
        pt acc = p * t
        st y[r, 0..64] = acc
        buf part f32[20,64] x1
        pt part = p[_, 0..64] * t[0..64, _]
        st h[r, 0..64] = part
      })";
    for (size_t at; (at = body.find('N')) != std::string::npos;) body.replace(at, 1, n);
    SCOPED_TRACE(body);
    Machine m(one_kernel({"x: in f32 [40," + n + "]", "w: in dl16 [" + n + ",64]", "y: out f32 [40,64]",
                          "h: out f32 [40,64]", "z: out f32 [40," + n + "]", "s: out f32 [40,1]"},
                         "c:1", body));
    auto x = noise(3);
    m.set("x", [&](int64_t i) { return i == 7 ? NAN : i == 130 ? -INFINITY : i % 5 == 0 ? x(i) * 1e-3 : x(i); });
    m.set("w", noise(5));
    m.run_every_way();
    int outside = 0, tiny = 0;
    for (const double z : m.get("z")) outside += !std::isfinite(z), tiny += z != 0 && std::abs(z) < 1e-8;
    EXPECT_GT(outside, 20);
    EXPECT_GT(tiny, 0);
  }
}

TEST(StoreForward, WhatAClippedStepLeavesOfAResultStaysAsItWas) {
  Machine m(one_kernel({"x: in f32 [33,64]", "s: out f32 [20,1]"}, "c:1", R"(
    buf u f32[20,64] x1
    ld u = x[0..20, 0..64]
    buf p dl16[20,64] x1
    sfp p = u
    for r in 0..33 by 20 {
      buf v f32[20,64] x1
      ld v = x[r, 0..64]
      sfp p = v[0 ..+ r.size, _] * 2
    }
    buf m f32[20,1] x1
    sfp.red m = sum(p over 1)
    st s[0..20, 0..1] = m)"));
  m.set("x", noise(3));
  m.run_every_way();
}

TEST(StoreForward, TwoLoadsOfOneBoxFillDifferently) {
  Machine m(one_kernel({"x: in dl16 [5,64]", "y: out dl16 [16,64]", "z: out dl16 [16,64]"}, "c:1", R"(
    buf v dl16[8,64] x1
    for r in 0..16 by 8 {
      ld v = x[r, 0..64] fill 1
      buf o dl16[8,64] x1
      sfp o = v + 0.5
      st y[r, 0..64] = o
      ld v = x[r, 0..64] fill 2
      buf q dl16[8,64] x1
      sfp q = v + 0.5
      st z[r, 0..64] = q
    })"));
  m.set("x", noise(3));
  m.run_every_way();
}

}  // namespace
}  // namespace spyre::card
