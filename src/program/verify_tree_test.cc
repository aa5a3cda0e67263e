// Scopes, grids, loops, LX and collectives.
#include "program/verify_text.h"

namespace spyre::program {
namespace {

const std::vector<std::string> dl16_xy = {"x: in dl16 [256,512]", "y: out dl16 [256,512]"};

std::string copy_loop(const std::string& buffers, const std::string& after = "") {
  return one_kernel(dl16_xy, "grid(a:4) { core m in 0..256 by 64 on a\n for j in 0..512 by 64 {\n" + buffers +
                                 "ld b = x[m, j]\n st y[m, j] = b\n" + after + "} }");
}

TEST(VerifyLx, SlotsFillLxAndNoMore) {
  // 248 KB a slot, 2,031,616 bytes can be used: 8 slots fit exactly
  auto text = [](int slots) {
    return one_kernel({"x: in f32 [1,63488]", "y: out f32 [1,63488]"},
                      "grid(a:1) { buf b f32[1,63488] x" + std::to_string(slots) +
                          " @0\n ld b = x[0..1, 0..63488]\n st y[0..1, 0..63488] = b }");
  };
  EXPECT_LEGAL(text(8));
  EXPECT_REFUSED(text(9), "only 2031616 can be used");
}

TEST(VerifyLx, OffsetsCountTowardsTheLimit) {
  EXPECT_LEGAL(copy_loop("buf b dl16[64,64] x2 @2015232\n"));
  EXPECT_REFUSED(copy_loop("buf b dl16[64,64] x2 @2015360\n"), "buffer b with 2 slots takes LX bytes");
}

TEST(VerifyLx, EveryBufferNeedsAPlace) {
  Program p = assemble(copy_loop("buf b dl16[64,64] x2\n"));
  p.kernels[0].buffers[0].lx_offset = -1;
  EXPECT_REFUSED(p, "has no place in LX");
}

TEST(VerifyLx, OneScopeDoesNotShareBytes) {
  EXPECT_LEGAL(copy_loop("buf b dl16[64,64] x2 @0\nbuf c dl16[64,64] x1 @16384\n"));
  EXPECT_REFUSED(copy_loop("buf b dl16[64,64] x2 @0\nbuf c dl16[64,64] x1 @8192\n"), "share LX bytes");
}

TEST(VerifyLx, SiblingScopesShareBytesInnerOnesDoNot) {
  auto loops = [](const std::string& outer, const std::string& first, const std::string& second) {
    return one_kernel(dl16_xy, "grid(a:4) { core m in 0..256 by 64 on a\n" + outer +
                                   "for i in 0..256 by 64 { buf b dl16[64,64] x2 " + first +
                                   "\n ld b = x[m, i]\n st y[m, i] = b }\n" +
                                   "for j in 256..512 by 64 { buf c dl16[64,64] x2 " + second +
                                   "\n ld c = x[m, j]\n st y[m, j] = c } }");
  };
  EXPECT_LEGAL(loops("", "@0", "@0"));
  EXPECT_LEGAL(loops("buf o f32[64,64] x1 @16384\n", "@0", "@0"));
  EXPECT_REFUSED(loops("buf o f32[64,64] x1 @0\n", "@0", "@16384"), "share LX bytes");
}

TEST(VerifyLx, NestsAreSiblings) {
  const std::string nest =
      "grid(a:4) { core m in 0..256 by 64 on a\n buf b dl16[64,512] x1 @0\n ld b = x[m, 0..512]\n ";
  EXPECT_LEGAL(one_kernel(dl16_xy, nest + "st y[m, 0..512] = b }\n grid(a:4) { core m in 0..256 by 64 on a\n buf c "
                                          "dl16[64,512] x1 @0\n ld c = x[m, 0..512] }"));
  EXPECT_REFUSED(one_kernel(dl16_xy, "buf s f32[64] x1 @0\n" + nest + "st y[m, 0..512] = b }"), "share LX bytes");
}

TEST(VerifyGrid, CoresAreThoseOfTheDevice) {
  std::string text = copy_loop("buf b dl16[64,64] x2\n");
  EXPECT_LEGAL(text);
  text.replace(text.find("cores 32"), 8, "cores 33");
  EXPECT_REFUSED(text, "33 cores; the device has 32");
}

TEST(VerifyLoop, TripsAreLimited) {
  auto loop = [](int64_t n) {
    return one_kernel({"y: out f32 [1,32]"}, "grid(a:1) { buf b f32[1,32] x1\n sfp b = 0\n for i in 0.." +
                                                 std::to_string(n) +
                                                 " by 1 { sfp b = b + 1 }\n st y[0..1, 0..32] = b }");
  };
  EXPECT_LEGAL(loop(65535));
  EXPECT_REFUSED(loop(65536), "loop i makes up to 65536 trips");
}

TEST(VerifyLoop, ScalarsCountWithTheirBounds) {
  auto loop = [](const std::string& bounds) {
    return one_kernel(
        {"y: out f32 [1,32]"},
        "grid(a:1) { buf b f32[1,32] x1\n sfp b = 0\n for i in 0..n by 2 { sfp b = b + 1 }\n st y[0..1, 0..32] = b }",
        "n: i32 in " + bounds);
  };
  EXPECT_LEGAL(loop("0..131070"));
  EXPECT_REFUSED(loop("0..131071"), "trips");
}

TEST(VerifyLoop, StepInstancesAreLimited) {
  auto loops = [](int outer) {
    return one_kernel(
        {"y: out f32 [1,32]"},
        "grid(a:1) { buf b f32[1,32] x1\n sfp b = 0\n for i in 0.." + std::to_string(outer) +
            " by 1 { for j in 0..65535 by 1 { for l in 0..256 by 1 { sfp b = b + 1 } } }\n st y[0..1, 0..32] = b }");
  };
  EXPECT_LEGAL(loops(65535));
  EXPECT_REFUSED(one_kernel({"y: out f32 [1,32]"},
                            "grid(a:1) { buf b f32[1,32] x1\n sfp b = 0\n for i in 0..65535 by 1 { for j in 0..65535 "
                            "by 1 { for l in 0..257 by 1 { sfp "
                            "b = b + 1 } } }\n st y[0..1, 0..32] = b }"),
                 "2^40 step instances");
}

TEST(VerifyLoop, ValuesDoNotOverflow) {
  auto loop = [](const std::string& hi) {
    return one_kernel({"y: out f32 [1,32]"},
                      "grid(a:1) { buf b f32[1,32] x1\n sfp b = 0\n for i in 0..min(8, " + hi +
                          ") by 1 { sfp b = b + 1 }\n st y[0..1, 0..32] = b }",
                      "n: i32 in 0..2147483647");
  };
  EXPECT_LEGAL(loop("n * 1000000"));
  EXPECT_REFUSED(loop("n * n"), "2^53");
}

TEST(VerifyLoop, UniformTripsAreKnown) {
  auto loop = [](const std::string& range) {
    return one_kernel(dl16_xy,
                      "grid(a:4) { core m in 0..256 by 64 on a\n for j in " + range +
                          " by 32 uniform { buf b dl16[32,512] x2\n ld b = x[j, 0..512]\n st y[j, 0..512] = b } }");
  };
  EXPECT_LEGAL(loop("m"));
  EXPECT_REFUSED(loop("m.start..m.start + m.size - a"), "divides no range");
}

TEST(VerifyCollective, BoundsAreEqualOnAllCores) {
  auto text = [](const std::string& loop, const std::string& share) {
    return one_kernel(
        {"x: in dl16 [256,512]", "y: out dl16 [256,500]"},
        "grid(a:2, b:4) { core m in 0..256 by 128 on a\n core n in 0..500 by 128 on b\n for j in n by 64 " + loop +
            " { buf t dl16[128,64] x2\n ld t = x[m, 0..64] " + share + "\n st y[m, j] = t } }");
  };
  EXPECT_LEGAL(text("", ""));
  EXPECT_LEGAL(text("uniform", "share(b)"));
  EXPECT_REFUSED(text("", "share(b)"), "mark the loop uniform");
}

TEST(VerifyCollective, ConditionsAreEqualOnAllCores) {
  auto text = [](const std::string& condition, const std::string& over) {
    return one_kernel({"y: out f32 [2,4,32]"},
                      "grid(a:2, b:4) { core m in 0..2 by 1 on a\n core n in 0..4 by 1 on b\n buf t f32[1,32] x1\n buf "
                      "u f32[1,32] x1\n "
                      "sfp t = 1\n sfp u = 2\n if " +
                          condition + " { ring.shift u = t over " + over + " by 1 }\n st y[m, n, 0..32] = u }");
  };
  EXPECT_LEGAL(text("a == 0", "b"));
  EXPECT_REFUSED(text("b == 0", "b"), "under a condition that differs between its cores");
  EXPECT_REFUSED(text("n.start < 2", "b"), "under a condition that differs between its cores");
}

TEST(VerifyCollective, SharedDataIsTheSame) {
  auto text = [](const std::string& access) {
    return one_kernel({"x: in dl16 [256,512]", "y: out dl16 [256,512]"},
                      "grid(a:2, b:4) { core m in 0..256 by 128 on a\n core n in 0..512 by 128 on b\n buf t "
                      "dl16[128,128] x2\n ld t = x[" +
                          access + "] share(b)\n st y[m, n] = t }");
  };
  EXPECT_LEGAL(text("m, 0..128"));
  EXPECT_REFUSED(text("m, n"), "access depends on b");
}

TEST(VerifyCollective, SharedIndicesAreTheSame) {
  auto text = [](const std::string& ids) {
    return one_kernel(
        {"x: in dl16 [256,64]", "ids: in i32 [4,64]", "y: out dl16 [4,64,64]"},
        "grid(b:4) { core n in 0..4 by 1 on b\n buf ix i32[64] x1\n ld ix = ids[" + ids +
            "]\n buf t dl16[64,64] x2\n ld t = x[ix in 0..256 trap, 0..64] share(b)\n st y[n, 0..64, 0..64] = t }");
  };
  EXPECT_LEGAL(text("0, 0..64"));
  EXPECT_REFUSED(text("n, 0..64"), "equal indices on all cores");
}

TEST(VerifyCollective, SizesAreEqualOnAllCores) {
  auto text = [](const std::string& sum) {
    return one_kernel(
        {"x: in f32 [4,100]"},
        "grid(b:4) { core n in 0..100 by 32 on b\n buf t f32[1,32] x1\n ld t = x[0, n]\n " + sum + " over b to all }");
  };
  EXPECT_LEGAL(text("psum t"));
  EXPECT_REFUSED(text("psum t[_, 0..n.size]"), "differs between the cores of b");
}

}  // namespace
}  // namespace spyre::program
