// Device memory: disjoint stores, loads that meet stores, temps, spans.
#include <chrono>

#include "program/verify_text.h"

namespace spyre::program {
namespace {

std::string fill(const std::string& symbol, const std::string& statements, const std::string& scalars = "") {
  return one_kernel({symbol}, statements, scalars);
}

TEST(VerifyView, LiesInsideItsAllocation) {
  Program p = assemble(
      one_kernel({"x: in f32 [4,32] offset 10 of [200]"}, "grid(a:1) { buf b f32[4,32] x1\n ld b = x[0..4, 0..32] }"));
  for (Symbol* s : {&p.symbols[0], &p.kernels[0].formals[0]}) s->view.offset = 72;
  EXPECT_LEGAL(p);
  for (Symbol* s : {&p.symbols[0], &p.kernels[0].formals[0]}) s->view.offset = 73;
  EXPECT_NE(verdict(p).find("reaches element 200, its allocation has 200"), std::string::npos) << verdict(p);
}

TEST(VerifyStores, CoresWriteWholeSticks) {
  auto text = [](const std::string& n, const std::string& j) {
    return fill("y: out dl16 [1024,1536]", "grid(a:8, b:4) { core m in 0..1024 by 128 on a\n core n in 0..1536 by " +
                                               n + " on b\n for j in n by " + j + " { buf o dl16[128," + j +
                                               "] x1\n sfp o = 1.0\n st y[m, j] = o } }");
  };
  EXPECT_LEGAL(text("384", "128"));
  EXPECT_LEGAL(text("320", "64"));
  EXPECT_REFUSED(text("352", "128"), "both write stick");  // cores meet in the middle of a stick
  EXPECT_REFUSED(text("384", "96"), "writes stick");       // and so do the trips of one core
}

TEST(VerifyStores, RowsOfAnyNumberAreApart) {
  auto text = [](const std::string& by) {
    return fill("y: out dl16 [1000,100]", "grid(a:32) { core m in 0..1000 by " + by + " on a\n buf o dl16[" + by +
                                              ",100] x1\n sfp o = 1.0\n st y[m, 0..100] = o }");
  };
  EXPECT_LEGAL(text("32"));
  EXPECT_LEGAL(text("7"));
}

TEST(VerifyStores, ALinearVectorIsCutAtSticks) {
  auto text = [](const std::string& by) {
    return fill("y: out f32 [1024]", "grid(a:32) { core m in 0..1024 by " + by + " on a\n buf o f32[" + by +
                                         "] x1\n sfp o = 1.0\n st y[m] = o }");
  };
  EXPECT_LEGAL(text("32"));
  EXPECT_REFUSED(text("16"), "both write stick");
}

TEST(VerifyStores, ACoordinateThatIsNotUsedMeansTwoWriters) {
  auto text = [](const std::string& before) {
    return fill("y: out f32 [4,32]",
                "grid(a:4, b:2) { core m in 0..4 by 1 on a\n buf o f32[1,32] x1\n sfp o = 1.0\n " + before);
  };
  EXPECT_LEGAL(text("if b == 1 { st y[m, 0..32] = o } }"));
  EXPECT_REFUSED(text("st y[m, 0..32] = o }"), "cores 0 and 1 both write stick 0 of y");
}

TEST(VerifyStores, ALoopThatIsNotUsedNeedsOrdered) {
  auto text = [](const std::string& loop, const std::string& ordered) {
    return fill("y: out f32 [4,32]",
                "grid(a:4) { core m in 0..4 by 1 on a\n buf o f32[1,32] x1\n for i in 0..8 by 1 { sfp o = 1.0\n " +
                    loop + " st y[m, 0..32] = o " + ordered + (loop.empty() ? "" : "}") + " } }");
  };
  EXPECT_LEGAL(text("", "ordered"));
  EXPECT_LEGAL(text("if i.last {", ""));
  EXPECT_LEGAL(text("if i.first {", ""));
  EXPECT_LEGAL(text("if i.start == 5 {", ""));
  EXPECT_REFUSED(text("", ""), "core 0 writes stick 0 of y twice");
  EXPECT_REFUSED(text("if i.start < 2 {", ""), "writes stick 0 of y twice");
}

TEST(VerifyStores, ClippedPartsOfACoreStayInIt) {
  // 100 rows a core in tiles of 64: the second tile is clipped, and does not reach the next core's rows
  EXPECT_LEGAL(fill("y: out f32 [400,32]",
                    "grid(a:4) { core m in 0..400 by 100 on a\n for r in m by 64 { buf o f32[64,32] x1\n sfp o = 1.0\n "
                    "st y[r, 0..32] = o } }"));
  // ... but does when it is written without its range
  EXPECT_REFUSED(
      fill("y: out f32 [400,32]",
           "grid(a:4) { core m in 0..400 by 100 on a\n for r in m by 64 { buf o f32[64,32] x1\n sfp o = 1.0\n st "
           "y[r.start ..+ 64, 0..32] = o } }"),
      "both write stick");
}

TEST(VerifyStores, StepsApartInTwoDimensionsOfOneIndex) {
  auto text = [](const std::string& outer) {
    return fill(
        "y: out f32 [64,32]",
        "grid(a:4) { core m in 0..4 by 1 on a\n for i in 0..16 by 1 { buf o f32[1,32] x1\n sfp o = 1.0\n st y[" +
            outer + "*m.start + i.start, 0..32] = o } }");
  };
  EXPECT_LEGAL(text("16"));
  EXPECT_REFUSED(text("15"), "both write stick");
}

TEST(VerifyStores, DivAndModAreTried) {
  auto text = [](const std::string& row) {
    return fill(
        "y: out f32 [8,8,32]",
        "grid(a:4) { core m in 0..64 by 16 on a\n for i in m by 1 { buf o f32[1,1,32] x1\n sfp o = 1.0\n st y[" + row +
            ", 0..32] = o } }");
  };
  EXPECT_LEGAL(text("i.start div 8, i.start mod 8"));
  EXPECT_REFUSED(text("i.start div 8, i.start mod 4"), "writes stick");
}

TEST(VerifyStores, SeveralStoresOfOneSymbol) {
  auto text = [](const std::string& second, const std::string& ordered = "") {
    return fill("y: out f32 [4,128]",
                "grid(a:4) { core m in 0..4 by 1 on a\n buf o f32[1,64] x1\n sfp o = 1.0\n st y[m, 0..64] = o " +
                    ordered + "\n st y[" + second + "] = o " + ordered + " }");
  };
  EXPECT_LEGAL(text("m, 64..128"));
  EXPECT_REFUSED(text("m, 32..96"), "of y twice, the other time in");
  EXPECT_LEGAL(text("m, 32..96", "ordered"));
  EXPECT_REFUSED(text("3 - m.start, 0..64", "ordered"), "both write stick");
}

TEST(VerifyStores, ALargeProblemIsDecidedWithoutTrying) {
  const auto before = std::chrono::steady_clock::now();
  EXPECT_LEGAL(fill(
      "y: out dl16 [65536,32768]",
      "grid(a:32) { core c in 0..32768 by 1024 on a\n for r in 0..65536 by 2 { for j in c by 64 { buf o dl16[2,64] "
      "x1\n sfp o = 1.0\n st y[r, j] = o } } }"));
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count(), 1.0);
}

TEST(VerifyStores, TooManyBoxesAreRefused) {
  auto text = [](int rows) {
    const std::string n = std::to_string(rows);
    return fill("y: out f32 [" + n + ",64,32]",
                "grid(a:1) { for i in 0.." + std::to_string(rows * 64) +
                    " by 1 { buf o f32[1,1,32] x1\n sfp o = 1.0\n st y[i.start div 64, i.start mod 64, 0..32] = o } }");
  };
  EXPECT_LEGAL(text(1000));
  EXPECT_REFUSED(fill("y: out f32 [1024,1024,32]",
                      "grid(a:32) { core m in 0..1048576 by 32768 on a\n for i in m by 1 { buf o f32[1,1,32] x1\n sfp "
                      "o = 1.0\n st y[i.start div 1024, i.start mod "
                      "1024, 0..32] = o } }"),
                 "more than 10^6 boxes");
}

TEST(VerifyStores, ScalarsMoveAllStoresAlike) {
  auto text = [](const std::string& row) {
    return fill("y: inout f32 [64,4,32]",
                "grid(a:4) { core m in 0..4 by 1 on a\n buf o f32[1,1,32] x1\n sfp o = 1.0\n st y[" + row + "] = o }",
                "n: i32 in 0..63");
  };
  EXPECT_LEGAL(text("n, m, 0..32"));
  EXPECT_LEGAL(text("n, n + m.start, 0..32"));
  EXPECT_REFUSED(text("n * m.start, 0, 0..32"), "depends on a scalar");
}

TEST(VerifyStores, OverlappingViewsAreNotStored) {
  auto text = [](const std::string& view) {
    return fill("y: out f32 " + view,
                "grid(a:4) { core m in 0..4 by 1 on a\n buf o f32[1,32] x1\n sfp o = 1.0\n st y[m, 0..32] = o }");
  };
  EXPECT_LEGAL(text("[4,32] strides [64,1] of [4,64]"));
  EXPECT_REFUSED(text("[4,32] strides [0,1] of [4,64]"), "two indices mean one element");
}

TEST(VerifyStores, ATransposedViewIsCutAtItsOwnSticks) {
  // sticks run along dimension 0 of the view: blocks of 64 rows
  auto text = [](const std::string& by) {
    return fill("y: out dl16 [512,16] strides [1,512] of [16,512]", "grid(a:8) { core m in 0..512 by " + by +
                                                                        " on a\n buf o dl16[" + by +
                                                                        ",16] x1\n sfp o = 1.0\n st y[m, 0..16] = o }");
  };
  EXPECT_LEGAL(text("64"));
  EXPECT_REFUSED(text("32"), "both write stick");
}

TEST(VerifyIndirect, OneCoreHandlesAllIndicesInOrder) {
  auto text = [](const std::string& split, const std::string& rows, const std::string& columns,
                 const std::string& ordered) {
    return one_kernel({"y: inout f32 [64,128]", "ids: in i32 [16]"},
                      "grid(a:4) { core m in " + split + " on a\n buf ix i32[" + (rows == "m" ? "4" : "16") +
                          "] x1\n ld ix = ids[" + rows + "]\n buf o f32[" + (rows == "m" ? "4" : "16") + "," +
                          (columns == "m" ? "32" : "128") + "] x1\n sfp o = 1.0\n st y[ix in 0..64 skip, " + columns +
                          "] = o " + ordered + " }");
  };
  EXPECT_LEGAL(text("0..128 by 32", "0..16", "m", "ordered"));
  EXPECT_REFUSED(text("0..128 by 32", "0..16", "m", ""), "must be ordered");
  EXPECT_REFUSED(text("0..16 by 4", "m", "0..128", "ordered"), "both write stick");
}

TEST(VerifyIndirect, OwnersOfRowsMayShareIndices) {
  auto text = [](const std::string& bounds) {
    return one_kernel({"y: inout f32 [64,32]", "ids: in i32 [16]"},
                      "grid(a:4) { core v in 0..64 by 16 on a\n buf ix i32[16] x1\n ld ix = ids[0..16]\n buf o "
                      "f32[16,32] x1\n sfp o = 1.0\n st y[ix in " +
                          bounds + " skip, 0..32] = o ordered }");
  };
  EXPECT_LEGAL(text("v"));
  EXPECT_REFUSED(text("0..64"), "both write stick");
}

TEST(VerifyIndirect, TheOwnerFormIsKnownByItsShape) {
  auto text = [](const std::string& ids, const std::string& where, const std::string& v = "v") {
    return one_kernel(
        {"tab: in f32 [64,32]", "y: out f32 [128,32]", "ids: in i32 [128]"},
        "grid(a:4) { core v in 0..64 by 16 on a\n for t in 0..128 by 16 { buf ix i32[16] x1\n ld ix = ids[" + ids +
            "]\n buf o f32[16,32] x1\n ld o = tab[ix in " + v + " skip, 0..32]\n st y[" + where + ", 0..32] = o } }");
  };
  EXPECT_LEGAL(text("t", "t where ix in v"));
  EXPECT_REFUSED(text("t", "t where ix in 0..64"), "may meet");
  EXPECT_REFUSED(text("0..16", "t where ix in v"), "may meet");  // not the row's own index
  EXPECT_REFUSED(text("t", "t"), "both write stick");
}

TEST(VerifyHazards, ASymbolInPlace) {
  auto text = [](const std::string& load, const std::string& compute, const std::string& store) {
    return one_kernel(
        {"y: inout f32 [64,64]"},
        "grid(a:4) { core m in 0..64 by 16 on a\n for j in 0..64 by 32 { buf b f32[16,32] x2\n ld b = y[" + load +
            "]\n buf o f32[16,32] x2\n " + compute + "\n st y[" + store + "] = o } }");
  };
  EXPECT_LEGAL(text("m, j", "sfp o = b + 1", "m, j"));
  EXPECT_REFUSED(text("m, 0..32", "sfp o = b + 1", "m, j"), "a fence is needed between them");
  EXPECT_REFUSED(text("0..16, j", "sfp o = b + 1", "m, j"), "a barrier over coordinate a is needed");
  EXPECT_REFUSED(text("m, j", "sfp o = 1.0", "m, j"),
                 "a fence is needed");  // nothing makes the store wait for the load
}

TEST(VerifyHazards, AfterAFenceOfTheSameCore) {
  auto text = [](const std::string& fence, const std::string& load = "m, 0..64") {
    return one_kernel(
        {"y: inout f32 [64,64]", "z: out f32 [64,64]"},
        "grid(a:4) { core m in 0..64 by 16 on a\n buf o f32[16,64] x2\n sfp o = 1.0\n st y[m, 0..64] = o\n " + fence +
            "\n buf b f32[16,64] x2\n ld b = y[" + load + "]\n st z[m, 0..64] = b }");
  };
  EXPECT_LEGAL(text("fence"));
  EXPECT_LEGAL(text("barrier over a"));
  EXPECT_REFUSED(text(""), "a fence is needed between them");
  EXPECT_LEGAL(text("barrier over a", "48 - m.start ..+ 16, 0..64"));
  EXPECT_REFUSED(text("fence", "48 - m.start ..+ 16, 0..64"), "a barrier over coordinate a is needed");
}

TEST(VerifyHazards, AFenceInALoopAlsoStandsBeforeTheNextTrip) {
  auto text = [](const std::string& first, const std::string& second) {
    return one_kernel({"y: inout f32 [64,64]", "z: inout f32 [64,64]"},
                      "grid(a:4) { core m in 0..64 by 16 on a\n buf o f32[16,64] x2\n sfp o = 1.0\n for i in 0..4 by 1 "
                      "{ st y[m, 0..64] = o ordered\n " +
                          first + "\n buf b f32[16,64] x2\n ld b = y[m, 0..64]\n st z[m, 0..64] = b ordered\n " +
                          second + " } }");
  };
  EXPECT_LEGAL(text("fence", "fence"));
  EXPECT_REFUSED(text("fence", ""), "from the end of one trip");
  EXPECT_REFUSED(text("", "fence"), "a fence is needed between them");
}

TEST(VerifyHazards, BetweenNestsABarrierOfAllCores) {
  auto text = [](const std::string& end, const std::string& begin, const std::string& cores = "4") {
    return one_kernel({"t: temp f32 [64,64]", "z: out f32 [64,64]"},
                      "grid(a:4, b:2) { core m in 0..64 by 16 on a\n core n in 0..64 by 32 on b\n buf o f32[16,32] "
                      "x1\n sfp o = 1.0\n st t[m, n] = o\n " +
                          end + " }\n grid(c:" + cores + ") { " + begin +
                          "\n core r in 0..64 by 16 on c\n buf b f32[64,16] x1\n core q in 0..64 by 16 on c\n buf s "
                          "f32[16,64] x1\n ld s = t[q, 0..64]\n st z[q, 0..64] = s }");
  };
  EXPECT_LEGAL(text("barrier over a\n barrier over b", ""));
  EXPECT_REFUSED(text("barrier over a", ""), "is needed between them");
  EXPECT_REFUSED(text("fence", ""), "is needed between them");
  EXPECT_REFUSED(text("", "barrier over c"), "is needed between them");  // 4 of 8 cores
  EXPECT_REFUSED(text("barrier over a\n barrier over b", "", "16"), "is needed between them");
}

TEST(VerifyHazards, PartsThatDoNotMeetNeedNothing) {
  auto text = [](const std::string& from) {
    return one_kernel({"y: inout f32 [64,64]"},
                      "grid(a:4) { core m in 0..64 by 16 on a\n buf b f32[16,32] x2\n ld b = y[m, " + from +
                          "]\n st y[m, 32..64] = b }");
  };
  EXPECT_LEGAL(text("0..32"));
  EXPECT_LEGAL(text("32..64"));
  EXPECT_REFUSED(text("16..48"), "a fence is needed");
}

TEST(VerifyTemps, AreWrittenBeforeTheyAreRead) {
  auto text = [](const std::string& rows, const std::string& condition = "") {
    return one_kernel({"t: temp f32 [64,32]", "z: out f32 [64,32]"},
                      "grid(a:4) { core m in 0..64 by " + rows + " on a\n buf o f32[" + rows +
                          ",32] x1\n sfp o = 1.0\n " + condition + " st t[m, 0..32] = o " +
                          (condition.empty() ? "" : "}") + "\n barrier over a\n buf b f32[" + rows +
                          ",32] x1\n ld b = t[m, 0..32]\n st z[m, 0..32] = b }");
  };
  EXPECT_LEGAL(text("16"));
  EXPECT_LEGAL(text("17"));
  EXPECT_REFUSED(text("15"), "not proved to write all of it");
  EXPECT_REFUSED(text("16", "if a == 1 {"), "not proved to write all of it");
}

TEST(VerifyTemps, LoadsComeAfterStores) {
  EXPECT_REFUSED(one_kernel({"t: temp f32 [64,32]"},
                            "grid(a:4) { core m in 0..64 by 16 on a\n buf b f32[16,32] x1\n ld b = t[m, 0..32]\n "
                            "fence\n st t[m, 0..32] = b }"),
                 "is read before");
  EXPECT_REFUSED(one_kernel({"t: temp f32 [64,32]"},
                            "grid(a:4) { core m in 0..64 by 16 on a\n buf b f32[16,32] x1\n ld b = t[m, 0..32] }"),
                 "is never written");
}

TEST(VerifyTemps, PiecesAddUp) {
  auto text = [](const std::string& second) {
    return one_kernel(
        {"t: temp f32 [64,64]", "z: out f32 [64,64]"},
        "grid(a:4) { core m in 0..64 by 16 on a\n buf o f32[16,32] x1\n sfp o = 1.0\n st t[m, 0..32] = o\n " + second +
            "\n fence\n buf b f32[16,64] x1\n ld b = t[m, 0..64]\n st z[m, 0..64] = b }");
  };
  EXPECT_LEGAL(text("st t[m, 32..64] = o"));
  EXPECT_REFUSED(text(""), "not proved to write all of it");
}

TEST(VerifyTemps, TriedBoxesAreCounted) {
  auto text = [](int from) {
    return one_kernel({"t: temp f32 [8,8,32]", "z: out f32 [8,8,32]"},
                      "grid(a:1) { for i in " + std::to_string(from) +
                          "..64 by 1 { buf o f32[1,1,32] x1\n sfp o = 1.0\n st t[i.start div 8, i.start mod 8, 0..32] "
                          "= o }\n fence\n buf b f32[8,8,32] x1\n ld "
                          "b = t[0..8, 0..8, 0..32]\n st z[0..8, 0..8, 0..32] = b }");
  };
  EXPECT_LEGAL(text(0));
  EXPECT_REFUSED(text(1), "not proved to write all of it");
}

TEST(VerifySpan, OneCoreReaches256MegabytesOfASymbol) {
  auto text = [](const std::string& rows, int cores) {
    return one_kernel({"x: in f32 [4096,32,1024]"},
                      "grid(a:" + std::to_string(cores) + ") { core m in 0..4096 by " + rows +
                          " on a\n for r in m by 1 { buf b f32[1,32,1024] x1\n ld b = x[r, 0..32, 0..1024] } }");
  };
  // sticks of one column group of all rows come first: a core's rows lie 4096 x 128 bytes x 32 apart
  const std::string message = verdict(text("4096", 1));
  EXPECT_NE(message.find("reaches a span of 536870912 bytes of x"), std::string::npos) << message;
  auto blocks = [](const std::string& columns, int cores) {
    return one_kernel({"x: in f32 [4096,32,1024]"}, "grid(a:" + std::to_string(cores) + ") { core c in 0..1024 by " +
                                                        columns + " on a\n for r in 0..4096 by 1 { buf b f32[1,32," +
                                                        columns + "] x1\n ld b = x[r, 0..32, c] } }");
  };
  EXPECT_NE(verdict(blocks("1024", 1)).find("reaches a span"), std::string::npos);
  EXPECT_EQ(verdict(one_kernel({"x: in f32 [131072,1024]"},
                               "grid(a:2) { core c in 0..1024 by 512 on a\n for r in 0..131072 by 4 { buf b f32[4,512] "
                               "x1\n ld b = x[r, c] } }")),
            "");
  EXPECT_NE(verdict(one_kernel({"x: in f32 [131072,1024]"},
                               "grid(a:1) { core c in 0..1024 by 544 on a\n for r in 0..131072 by 4 { buf b f32[4,544] "
                               "x1\n ld b = x[r, c] } }"))
                .find("reaches a span"),
            std::string::npos);
}

}  // namespace
}  // namespace spyre::program
