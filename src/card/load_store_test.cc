// ld, st, gather, scatter, mv: odd sizes, clipped and filled boxes, padding that must not leak, indices, partial
// sticks.
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

TEST(LoadStore, CopiesEveryFormatThroughClippedTiles) {
  for (const std::string f : {"dl16", "f16", "f32", "i32", "i16", "i8", "e4m3", "e5m2"}) {
    Machine m(one_kernel({"x: in " + f + " [3,37,201]", "y: out " + f + " [3,37,201]"}, "c:3",
                         "core b in 0..3 by 1 on c\n for r in 0..37 by 10 {\n for t in 0..201 by 128 {\n buf a " + f +
                             "[10,128] x2\n"
                             "ld a = x[b, r, t]\n st y[b, r, t] = a } }"));
    const auto x = m.set("x", [](int64_t i) { return std::floor(noise(1)(i) * 100); });
    m.run_every_way();
    EXPECT_EQ(m.get("y"), x) << f;
  }
}

TEST(LoadStore, TransposedAndSlicedViewsAreReachedElementByElement) {
  Machine m(one_kernel({"x: in f32 [70,33] strides [1,70] of [33,70]",
                        "s: inout f32 [4,10] strides [100,2] offset 205 of [8,100]", "y: out f32 [70,33]"},
                       "c:1",
                       "for r in 0..70 by 32 {\n buf a f32[32,33] x2\n ld a = x[r, 0..33]\n st y[r, 0..33] = a }\n"
                       "buf b f32[4,10] x1\n ld b = s[0..4, 0..10]\n sfp b = b * 2\n st s[0..4, 0..10] = b"));
  const auto x = m.set("x", noise(1));
  auto s = m.set("s", noise(2));
  m.run_every_way();
  EXPECT_EQ(m.get("y"), x);
  for (double& v : s) v *= 2;
  EXPECT_EQ(m.get("s"), s);
}

TEST(LoadStore, AStoreOfAPartLeavesTheOtherLanesOfItsSticks) {
  Machine m(one_kernel({"x: in dl16 [4,20]", "y: inout dl16 [4,20] strides [100,1] offset 30 of [4,100]"}, "c:1",
                       "buf a dl16[4,20] x1\n ld a = x[0..4, 0..20]\n st y[0..4, 0..20] = a"));
  const auto x = m.set("x", noise(1));
  const auto before = m.bytes("y");
  m.run_every_way();
  const auto after = m.bytes("y");
  EXPECT_EQ(m.get("y"), x);
  size_t changed = 0;
  for (size_t i = 0; i < after.size(); i += 2) changed += after[i] != before[i] || after[i + 1] != before[i + 1];
  EXPECT_LE(changed, 80u);
}

TEST(LoadStore, PaddingAfterTheLastLaneIsWrittenAsZero) {
  Machine m(one_kernel({"x: in dl16 [4,70]", "y: out dl16 [4,70]"}, "c:1",
                       "buf a dl16[4,70] x1\n ld a = x[0..4, 0..70]\n st y[0..4, 0..70] = a"));
  m.set("x", [](int64_t) { return 1.0; });
  m.run();
  const auto bytes = m.bytes("y");
  size_t ones = 0, zeros = 0;
  const uint16_t one = base::f32_to_dl16(1, base::Overflow::saturate);
  for (size_t i = 0; i < bytes.size(); i += 2) {
    uint16_t code;
    std::memcpy(&code, &bytes[i], 2);
    ones += code == one, zeros += code == 0;
  }
  EXPECT_EQ(ones, 280u);
  EXPECT_EQ(zeros, bytes.size() / 2 - 280);
}

TEST(LoadStore, ClippedPositionsAreFilled) {
  // Reads from 3 before the view to 4 after it.
  Machine m(one_kernel({"x: in f32 [5,40]", "y: out f32 [12,64]"}, "c:1",
                       "buf a f32[12,64] x1\n ld a = x[-3 ..+ 12, 0..64] fill 7\n st y[0..12, 0..64] = a"));
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 12 * 64; ++i) {
    const int64_t r = i / 64 - 3, c = i % 64;
    ASSERT_EQ(y[i], r >= 0 && r < 5 && c < 40 ? x[r * 40 + c] : 7.0) << i;
  }
}

TEST(LoadStore, StepsSkipIndices) {
  Machine m(one_kernel(
      {"x: in dl16 [31,80]", "y: out dl16 [16,80]"}, "c:1",
      "for r in 0..16 by 5 {\n buf a dl16[5,80] x2\n ld a = x[2*r - 1, 0..80] fill 3\n st y[r, 0..80] = a }"));
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 16 * 80; ++i) {
    const int64_t r = 2 * (i / 80) - 1;
    ASSERT_EQ(y[i], r >= 0 ? x[r * 80 + i % 80] : 3.0);
  }
}

TEST(LoadStore, IndicesOutsideFillSkipOrTrap) {
  const char* body = "buf ix i32[9] x1\n ld ix = i[0..9]\n buf a f32[9,40] x1\n sfp a = 5\n ld a = x[ix in 0..6 ";
  auto text = [&](const std::string& what) {
    return one_kernel({"x: in f32 [6,40]", "i: in i32 [9]", "y: out f32 [9,40]"}, "c:1",
                      body + what + ", 0..40] fill -1 @loc(0)\n st y[0..9, 0..40] = a");
  };
  auto index = [](int64_t i) { return static_cast<double>(i - 1); };
  Machine fill(text("fill")), skip(text("skip")), trap(text("trap"));
  const auto x = fill.set("x", noise(1));
  for (Machine* m : {&fill, &skip, &trap}) m->set("x", noise(1)), m->set("i", index);
  fill.run_every_way();
  skip.run_every_way();
  EXPECT_THROW(trap.run(), Error);
  const auto f = fill.get("y"), s = skip.get("y");
  for (int64_t r = 0; r < 9; ++r)
    for (int64_t c = 0; c < 40; ++c) {
      const bool in = r >= 1 && r < 7;
      EXPECT_EQ(f[r * 40 + c], in ? x[(r - 1) * 40 + c] : -1.0);
      EXPECT_EQ(s[r * 40 + c], in ? x[(r - 1) * 40 + c] : -1.0);
    }
}

TEST(LoadStore, WhereWritesOnlyTheRowsWhoseIndexIsTheCoresOwn) {
  Machine m(one_kernel({"tab: in f32 [64,33]", "i: in i32 [20]", "y: out f32 [20,33]"}, "vc:4",
                       "core v in 0..64 by 16 on vc\n for t in 0..20 by 8 {\n buf ix i32[8] x1\n ld ix = i[t] fill -1\n"
                       "buf a f32[8,33] x1\n ld a = tab[ix in v skip, 0..33]\n st y[t where ix in v, 0..33] = a }"));
  const auto tab = m.set("tab", noise(1));
  const auto ix = m.set("i", [](int64_t i) { return static_cast<double>(i * 13 % 64); });
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 20 * 33; ++i) ASSERT_EQ(y[i], tab[static_cast<int64_t>(ix[i / 33]) * 33 + i % 33]);
}

TEST(LoadStore, GatherAndScatterInsideLx) {
  Machine m(one_kernel(
      {"x: in f32 [30,50]", "i: in i32 [40]", "y: out f32 [40,50]", "z: out f32 [30,50]"}, "c:1",
      "buf t f32[30,50] x1\n ld t = x[0..30, 0..50]\n buf ix i32[40] x1\n ld ix = i[0..40]\n buf g f32[40,50] x1\n"
      "sfp g = 9\n sfp.gather g = t[ix in 0..30 skip]\n st y[0..40, 0..50] = g\n"
      "buf d dl16[40,50] x1\n sfp d = 0.5\n sfp.scatter t[ix in 0..30 skip] += d\n st z[0..30, 0..50] = t"));
  auto x = m.set("x", noise(1));
  const auto ix = m.set("i", [](int64_t i) { return static_cast<double>(i * i % 33); });
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 40 * 50; ++i) {
    const auto r = static_cast<int64_t>(ix[i / 50]);
    ASSERT_EQ(y[i], r < 30 ? x[r * 50 + i % 50] : 9.0);
  }
  for (int64_t r = 0; r < 40; ++r)
    for (int64_t c = 0; c < 50; ++c)
      if (ix[r] < 30) x[static_cast<int64_t>(ix[r]) * 50 + c] += 0.5;
  const auto z = m.get("z");
  for (int64_t i = 0; i < 30 * 50; ++i) ASSERT_NEAR(z[i], x[i], 1e-6);
}

TEST(LoadStore, MoveTransposesAndConverts) {
  Machine m(one_kernel(
      {"x: in dl16 [45,70]", "y: out f32 [70,45]", "z: out dl16 [70,45]"}, "c:1",
      "buf a dl16[45,70] x1\n ld a = x[0..45, 0..70]\n buf t f32[70,45] x1\n mv t = a^T\n st y[0..70, 0..45] = t\n"
      "buf u dl16[70,45] x1\n mv u = a^T\n st z[0..70, 0..45] = u"));
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y"), z = m.get("z");
  for (int64_t i = 0; i < 70 * 45; ++i) {
    ASSERT_EQ(y[i], x[i % 45 * 70 + i / 45]);
    ASSERT_EQ(z[i], x[i % 45 * 70 + i / 45]);
  }
}

TEST(LoadStore, AnAllocationMayCrossASegmentBoundary) {
  const uint64_t segment = static_cast<uint64_t>(device::load_description().segment_bytes);
  Machine m(one_kernel({"x: in f32 [64,64]", "y: out f32 [64,64]"}, "c:1",
                       "buf a f32[64,64] x1\n ld a = x[0..64, 0..64]\n sfp a = a + 1\n st y[0..64, 0..64] = a"),
            segment - 8192);
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y");
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], static_cast<double>(static_cast<float>(x[i]) + 1.0f));
}

TEST(LoadStore, PaddingIsClearedOnlyWhereItIsPadding) {
  // Row 0 of the view ends with a stick of its own, row 1 in the middle of one whose other lanes hold elements.
  Machine m(one_kernel({"y: inout f32 [2,50] strides [75,1] of [3,50]"}, "c:1",
                       "buf a f32[2,50] x1\n sfp a = 3.0\n st y[0..2, 0..50] = a ordered"));
  const auto& geometry = m.symbol("y").geometry;
  std::vector<std::byte> before(static_cast<size_t>(geometry.device_bytes()), std::byte{0x11});
  m.set_bytes("y", before);
  m.run();
  const auto after = m.bytes("y");
  for (int64_t o = 0; o < 150; ++o) {
    const bool inside = o < 50 || (o >= 75 && o < 125);
    const auto at = after.begin() + geometry.device_element(o) * 4;
    ASSERT_TRUE(inside || std::equal(at, at + 4, before.begin())) << o;
  }
}

}  // namespace
}  // namespace spyre::card
