// Defined before read.
#include "program/verify_text.h"

namespace spyre::program {
namespace {

const std::vector<std::string> f32_xy = {"x: in f32 [64,64]", "y: out f32 [64,64]"};

std::string body(const std::string& statements, const std::string& scalars = "") {
  return one_kernel(
      f32_xy, "grid(a:1) { buf b f32[64,64] x1\n buf c f32[64,64] x1\n" + statements + "\n st y[0..64, 0..64] = c }",
      scalars);
}

TEST(VerifyDefined, TheFirstStepWrites) {
  EXPECT_LEGAL(body("ld b = x[0..64, 0..64]\n sfp c = b"));
  EXPECT_REFUSED(body("sfp c = b"), "buffer b is read before it is written");
  EXPECT_REFUSED(body("ld b = x[0..64, 0..64]"), "buffer c is read before it is written");
  EXPECT_REFUSED(body("sfp c = c + 1"), "buffer c is read before it is written");
}

TEST(VerifyDefined, AnErrorNamesTheStepAndItsLoc) {
  const std::string message = verdict(body("sfp c = b @loc(0)"));
  EXPECT_NE(message.find("kernel 'k', sfp c = b (aten.op model.py:7)"), std::string::npos) << message;
}

TEST(VerifyDefined, NotUnderAnIf) {
  EXPECT_LEGAL(body("sfp c = 0\n for i in 0..4 by 1 { if i.first { sfp c = 1 } }"));
  EXPECT_REFUSED(body("for i in 0..4 by 1 { if i.first { sfp c = 1 } }"), "buffer c is read before");
}

TEST(VerifyDefined, ALoopThatMayNotRunDefinesNothing) {
  EXPECT_LEGAL(body("for i in 0..n by 1 { sfp c = 1 }", "n: i32 in 1..4"));
  EXPECT_REFUSED(body("for i in 0..n by 1 { sfp c = 1 }", "n: i32 in 0..4"), "buffer c is read before");
}

TEST(VerifyDefined, InitCountsAsTheFirstWrite) {
  auto text = [](const std::string& init, const std::string& trips = "0..4") {
    return one_kernel({"x: in dl16 [64,64]", "y: out f32 [64,64]"},
                      "grid(a:1) { buf c f32[64,64] x1\n buf w dl16[64,64] x1\n ld w = x[0..64, 0..64]\n for i in " +
                          trips + " by 1 { for k in " + trips + " by 1 { pt c += w * w " + init +
                          " } }\n st y[0..64, 0..64] = c }",
                      "n: i32 in 0..4");
  };
  EXPECT_LEGAL(text("init(i, k)"));
  EXPECT_LEGAL(text("init(k)"));
  EXPECT_REFUSED(text(""), "buffer c is read before");
  EXPECT_REFUSED(text("init(i, k)", "n..4"), "buffer c is read before");
}

TEST(VerifyDefined, InitLoopsLieInsideTheDeclaration) {
  auto text = [](const std::string& init) {
    return one_kernel({"x: in dl16 [64,64]", "y: out f32 [4,64,64]"},
                      "grid(a:1) { buf w dl16[64,64] x1\n ld w = x[0..64, 0..64]\n for i in 0..4 by 1 { buf c "
                      "f32[64,64] x1\n for k in 0..4 by 1 { pt "
                      "c += w * w init(" +
                          init + ") }\n st y[i, 0..64, 0..64] = c } }");
  };
  EXPECT_LEGAL(text("k"));
  EXPECT_REFUSED(text("i, k"), "outside of which buffer c would have to be declared");
}

TEST(VerifyDefined, InitUnderAnIfIsNone) {
  auto text = [](const std::string& before, const std::string& after) {
    return one_kernel(
        {"x: in dl16 [64,64]", "y: out f32 [64,64]"},
        "grid(a:1) { buf c f32[64,64] x1\n buf w dl16[64,64] x1\n ld w = x[0..64, 0..64]\n for k in 0..4 by 1 { " +
            before + " pt c += w * w init(k) " + after + " }\n st y[0..64, 0..64] = c }");
  };
  EXPECT_LEGAL(text("", ""));
  EXPECT_REFUSED(text("if k.start < 2 {", "}"), "buffer c is read before");
}

TEST(VerifyDefined, ALoopOverTheRangeCoversTheBuffer) {
  auto text = [](const std::string& loop, const std::string& use) {
    return one_kernel({"x: in f32 [2,256]", "y: out f32 [2,256]"},
                      "grid(a:2) { core c in 0..256 by 128 on a\n buf b f32[2,128] x1 pieces(1:32)\n for t in " + loop +
                          " by 32 { ld b[_, t] = x[0..2, t] }\n" + use + " }");
  };
  const std::string later = "for u in c by 64 { st y[0..2, u] = b[_, u] }";
  EXPECT_LEGAL(text("c", later));
  EXPECT_LEGAL(text("c", "st y[0..2, c] = b"));
  EXPECT_REFUSED(text("c.start + 32..c.start + 128", later), "buffer b is read before");
  EXPECT_REFUSED(one_kernel({"x: in f32 [2,256]", "y: out f32 [2,256]"},
                            "grid(a:2) { core c in 0..256 by 128 on a\n buf b f32[2,128] x1\n for t in c by 32 { if "
                            "t.first { ld b[_, t] = x[0..2, t] } }\n" +
                                later + " }"),
                 "buffer b is read before");
}

TEST(VerifyDefined, APieceIsReadWhereItWasWritten) {
  auto text = [](const std::string& read) {
    return one_kernel({"x: in f32 [2,256]", "y: out f32 [2,256]"},
                      "grid(a:1) { buf b f32[2,256] x1 pieces(1:32)\n for t in 0..256 by 32 { ld b[_, t] = x[0..2, "
                      "t]\n buf o f32[2,32] x1\n sfp o = b[_, " +
                          read + "]\n st y[0..2, t] = o } }");
  };
  EXPECT_LEGAL(text("t"));
  EXPECT_REFUSED(text("t.start..+ 31"), "does not broadcast");
  EXPECT_REFUSED(text("0..32"), "buffer b is read before");
}

TEST(VerifyDefined, LiteralBoxesAddUp) {
  EXPECT_LEGAL(body("sfp c[0..32, _] = 1\n sfp c[32..64, _] = 2"));
  EXPECT_REFUSED(body("sfp c[0..32, _] = 1\n sfp c[33..64, _] = 2"), "buffer c is read before");
}

TEST(VerifyDefined, AClippedPartIsNotTheWhole) {
  auto text = [](const std::string& step) {
    return one_kernel({"x: in f32 [1,100]", "y: out f32 [1,100]", "z: out f32 [1,1]"},
                      "grid(a:1) { for t in 0..100 by 64 { buf b f32[1,64] x1\n ld b = x[0..1, t]\n buf o f32[1,64] "
                      "x1\n buf s f32[1,1] x1\n sfp o = b[_, t] + 1\n " +
                          step + "\n st y[0..1, t] = o } }");
  };
  EXPECT_LEGAL(text("sfp.red s = sum(o[_, t] over 1)"));
  EXPECT_REFUSED(text("sfp.red s = sum(o over 1)"), "buffer o is read before");
}

TEST(VerifyDefined, AfterPsumToZeroOnlyCoreZeroReads) {
  auto text = [](const std::string& psum, const std::string& condition) {
    return one_kernel({"y: out f32 [1,32]"}, "grid(g:4) { buf s f32[1,32] x1\n sfp s = 1\n psum s over g to " + psum +
                                                 "\n if " + condition +
                                                 " { buf o f32[1,32] x1\n sfp o = s\n st y[0..1, 0..32] = o } }");
  };
  EXPECT_LEGAL(text("0", "g == 0"));
  EXPECT_LEGAL(text("all", "g == 1"));
  EXPECT_REFUSED(text("0", "g == 1"), "undefined after psum to 0");
}

TEST(VerifyDefined, PsumInALoopMeetsTheNextTrip) {
  auto text = [](const std::string& first) {
    return one_kernel(
        {"y: out f32 [1,32]"},
        "grid(g:4) { buf s f32[1,32] x1\n sfp s = 1\n for i in 0..4 by 1 { " + first +
            "\n psum s over g to 0 }\n if g == 0 { buf o f32[1,32] x1\n sfp o = s\n st y[0..1, 0..32] = o } }");
  };
  EXPECT_LEGAL(text("sfp s = 2"));
  EXPECT_REFUSED(text("sfp s = s * 2"), "undefined after psum to 0");
}

TEST(VerifyDefined, KernelBuffersAreDefinedOnTheCoresThatWroteThem) {
  auto text = [](int first, int second) {
    return one_kernel({"y: out f32 [8,32]"}, "buf s f32[1,32] x1\n grid(g:" + std::to_string(first) +
                                                 ") { sfp s = 1 }\n grid(g:" + std::to_string(second) +
                                                 ") { core m in 0..8 by 1 on g\n st y[m, 0..32] = s }");
  };
  EXPECT_LEGAL(text(8, 8));
  EXPECT_LEGAL(text(8, 4));
  EXPECT_REFUSED(text(4, 8), "was written in a nest of 4");
}

TEST(VerifyDefined, RemapReadsTheCoresOfItsNest) {
  auto text = [](const std::string& use) {
    return one_kernel({"x: in f32 [64,64]", "y: out f32 [64,64]"},
                      "buf s f32[16,64] x1\n grid(g:4) { core m in 0..64 by 16 on g\n ld s = x[m, 0..64] }\n"
                      "grid(h:8) { core n in 0..64 by 8 on h\n buf r f32[8,64] x1\n " +
                          use + "\n st y[n, 0..64] = r }");
  };
  EXPECT_LEGAL(text("ring.remap r = s from(m@0, _) to(n, _)"));
  EXPECT_REFUSED(text("sfp r = s[0..8, _]"), "was written in a nest of 4");
}

TEST(VerifyDefined, ATableIsDefinedBeforeItIsScattered) {
  auto text = [](const std::string& first) {
    return one_kernel({"ids: in i32 [8]", "v: in f32 [8,32]", "y: out f32 [16,32]"},
                      "grid(g:1) { buf ix i32[8] x1\n ld ix = ids[0..8]\n buf d f32[8,32] x1\n ld d = v[0..8, 0..32]\n "
                      "buf acc f32[16,32] x1\n " +
                          first + "\n sfp.scatter acc[ix in 0..16 skip] += d\n st y[0..16, 0..32] = acc }");
  };
  EXPECT_LEGAL(text("sfp acc = 0"));
  EXPECT_REFUSED(text(""), "buffer acc is read before");
}

}  // namespace
}  // namespace spyre::program
