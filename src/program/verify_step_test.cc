// Operands of steps: shapes, formats, types, boxes inside their buffers.
#include "program/verify_text.h"

namespace spyre::program {
namespace {

/// A kernel of these statements on two cores.
std::string steps(const std::string& statements, const std::vector<std::string>& symbols = {"y: out f32 [1,32]"},
                  const std::string& scalars = "") {
  return one_kernel(symbols, "grid(g:2, h:1) {\n" + statements + "\n}", scalars);
}
/// A matrix product of three buffers.
std::string product(const std::string& acc, const std::string& a, const std::string& b,
                    const std::string& step = "pt acc = a * b") {
  return steps("buf acc " + acc + " x1\n buf a " + a + " x1\n buf b " + b + " x1\n sfp a = " +
               (a.starts_with("i") ? "1" : "1.0") + "\n sfp b = " + (b.starts_with("i") ? "1" : "1.0") + "\n " + step);
}

TEST(VerifyMatMul, DimensionsAgree) {
  EXPECT_LEGAL(product("f32[16,64]", "dl16[16,128]", "dl16[128,64]"));
  EXPECT_LEGAL(product("f32[16,64]", "dl16[128,16]", "dl16[64,128]", "pt acc = a^T * b^T"));
  EXPECT_REFUSED(product("f32[16,64]", "dl16[16,128]", "dl16[64,128]"), "operands do not agree");
  EXPECT_REFUSED(product("f32[16,32]", "dl16[16,128]", "dl16[128,64]"), "operands do not agree");
  EXPECT_REFUSED(product("f32[8,64]", "dl16[16,128]", "dl16[128,64]"), "operands do not agree");
}

TEST(VerifyMatMul, OperandsAreMatrices) {
  EXPECT_LEGAL(product("f32[1,16,64]", "dl16[16,128]", "dl16[1,1,128,64]"));
  EXPECT_REFUSED(product("f32[2,16,64]", "dl16[16,128]", "dl16[128,64]"), "more than two dimensions");
  EXPECT_REFUSED(product("f32[64]", "dl16[1,128]", "dl16[128,64]"), "has one dimension");
}

TEST(VerifyMatMul, FormatsAgree) {
  EXPECT_LEGAL(product("f32[16,64]", "e4m3[16,128]", "e5m2[128,64]"));
  EXPECT_LEGAL(product("f32[16,64]", "f16[16,128]", "f16[128,64]"));
  EXPECT_LEGAL(product("i32[16,64]", "i8[16,128]", "i8[128,64]"));
  EXPECT_REFUSED(product("dl16[16,64]", "dl16[16,128]", "dl16[128,64]"), "formats do not agree");
  EXPECT_REFUSED(product("f32[16,64]", "dl16[16,128]", "e4m3[128,64]"), "formats do not agree");
  EXPECT_REFUSED(product("f32[16,64]", "f32[16,128]", "f32[128,64]"), "pt multiplies dl16");
  EXPECT_REFUSED(product("f32[16,64]", "i8[16,128]", "i8[128,64]"), "formats do not agree");
  EXPECT_LEGAL(product("f32[16,64]", "f32[16,128]", "f32[128,64]", "sfp.mm acc = a * b"));
  EXPECT_LEGAL(product("i32[16,64]", "i32[16,128]", "i32[128,64]", "sfp.mm acc = a * b"));
  EXPECT_REFUSED(product("f32[16,64]", "dl16[16,128]", "dl16[128,64]", "sfp.mm acc = a * b"),
                 "sfp.mm is all f32 or all i32");
}

TEST(VerifyMatMul, TheAccumulatorIsNoOperand) {
  EXPECT_LEGAL(product("f32[64,64]", "f32[64,64]", "f32[64,64]", "sfp.mm acc = a * b"));
  EXPECT_REFUSED(product("f32[64,64]", "f32[64,64]", "f32[64,64]", "sfp.mm a = a * b"),
                 "accumulator is also an operand");
}

TEST(VerifyVector, OperandsBroadcast) {
  auto text = [](const std::string& b) {
    return steps("buf a f32[8,64] x1\n buf b " + b + " x1\n sfp b = 1.0\n sfp a = b * 2");
  };
  EXPECT_LEGAL(text("f32[8,64]"));
  EXPECT_LEGAL(text("f32[1,64]"));
  EXPECT_LEGAL(text("f32[8,1]"));
  EXPECT_LEGAL(text("dl16[64]"));
  EXPECT_REFUSED(text("f32[4,64]"), "does not broadcast");
  EXPECT_REFUSED(text("f32[8,32]"), "does not broadcast");
  EXPECT_REFUSED(text("f32[1,8,64]"), "has 3 dimensions, its result 2");
}

TEST(VerifyVector, ResultsHaveOneBox) {
  auto text = [](const std::string& b) {
    return steps("buf a f32[8,64] x1\n buf b f32[8," + b + "] x1\n sfp a, b = 1.0, 2.0");
  };
  EXPECT_LEGAL(text("64"));
  EXPECT_REFUSED(text("32"), "different boxes");
}

TEST(VerifyVector, AResultDoesNotGrow) {
  EXPECT_REFUSED(steps("buf a f32[8,1] x1\n buf b f32[8,64] x1\n sfp b = 1.0\n sfp a = b"), "does not broadcast");
}

TEST(VerifyVector, InPlaceLanesAreTheSame) {
  auto text = [](const std::string& step) { return steps("buf a f32[8,64] x1\n sfp a = 1.0\n " + step); };
  EXPECT_LEGAL(text("sfp a = a * 2"));
  EXPECT_LEGAL(text("sfp a[0..4, _] = a[0..4, _] * 2"));
  EXPECT_REFUSED(text("sfp a[0..4, _] = a[4..8, _] * 2"), "read at other lanes than it is written");
  EXPECT_REFUSED(text("sfp a = a[0..1, _] * 2"), "read at other lanes than it is written");
}

TEST(VerifyVector, IotaCountsADimension) {
  auto text = [](const std::string& iota) { return steps("buf a i32[8,64] x1\n sfp a = " + iota); };
  EXPECT_LEGAL(text("iota1"));
  EXPECT_REFUSED(text("iota2"), "iota counts along dimension 2 of 2");
}

TEST(VerifyVector, IntegersFitInt32) {
  auto text = [](const std::string& value) {
    return steps("buf a i32[8,64] x1\n sfp a = 1\n for i in 0..1000 by 1 { sfp a = int(" + value + ") }");
  };
  EXPECT_LEGAL(text("i.start * 2000000"));
  EXPECT_REFUSED(text("i.start * 3000000"), "leaves int32");
}

TEST(VerifyBox, LiesInsideItsBuffer) {
  auto text = [](const std::string& box) {
    return steps("buf a f32[8,64] x1\n buf b f32[8,32] x1\n sfp a = 1.0\n sfp b = a[_, " + box + "]");
  };
  EXPECT_LEGAL(text("32..64"));
  EXPECT_REFUSED(text("33..65"), "can reach positions 33..65 of dimension 1, which has 64");
}

TEST(VerifyBox, FollowsAClippedRangeToItsEnd) {
  auto text = [](int shape) {
    const std::string n = std::to_string(shape);
    return one_kernel({"x: in f32 [1,100]", "y: out f32 [1,100]"},
                      "grid(g:1) { buf b f32[1," + n +
                          "] x1\n for t in 0..100 by 64 { ld b[_, t] = x[0..1, t]\n st y[0..1, t] = b[_, t] } }");
  };
  EXPECT_LEGAL(text(100));
  EXPECT_LEGAL(text(128));
  EXPECT_REFUSED(text(99), "which has 99");
}

TEST(VerifyBox, UsesScalarBounds) {
  auto text = [](const std::string& bounds) {
    return steps("buf a f32[8,64] x1\n buf b f32[8,1] x1\n sfp a = 1.0\n sfp b = a[_, n ..+ 1]", {"y: out f32 [1,32]"},
                 "n: i32 in " + bounds);
  };
  EXPECT_LEGAL(text("0..63"));
  EXPECT_REFUSED(text("0..64"), "which has 64");
  EXPECT_REFUSED(text("-1..63"), "can reach positions -1");
}

TEST(VerifyReduce, StateHasSizeOne) {
  auto text = [](const std::string& state, const std::string& dim = "1") {
    return steps("buf a f32[8,64] x1\n buf s " + state + " x1\n sfp a = 1.0\n sfp.red s = sum(a over " + dim + ")");
  };
  EXPECT_LEGAL(text("f32[8,1]"));
  EXPECT_LEGAL(text("f32[1,64]", "0"));
  EXPECT_REFUSED(text("f32[1,64]"), "does not have the shape");
  EXPECT_REFUSED(text("f32[8]"), "does not have the shape");
  EXPECT_REFUSED(text("f32[8,1]", "2"), "reduces dimension 2 of 2");
}

TEST(VerifyReduce, TheStateIsNotReduced) {
  auto text = [](const std::string& step) {
    return steps("buf a f32[8,1] x1\n buf s f32[8,1] x1\n sfp a = 1.0\n sfp s = 0.0\n sfp.red " + step);
  };
  EXPECT_LEGAL(text("s = sum(s, a over 1)"));
  EXPECT_REFUSED(text("s = sum(a, s over 1)"), "state s is also reduced over");
}

TEST(VerifyScan, CarryHasSizeOne) {
  auto text = [](const std::string& carry) {
    return steps("buf a f32[8,64] x1\n buf o f32[8,64] x1\n buf s " + carry +
                 " x1\n sfp a = 1.0\n sfp s = 0.0\n sfp.scan o, s = sum(a, s)");
  };
  EXPECT_LEGAL(text("f32[8,1]"));
  EXPECT_REFUSED(text("f32[1,64]"), "carry s does not have the shape");
}

TEST(VerifySort, ShapesAndFormatsAgree) {
  auto text = [](const std::string& v, const std::string& i) {
    return steps("buf a f32[8,64] x1\n buf v " + v + " x1\n buf i " + i + " x1\n sfp a = 1.0\n sfp.sort v, i = a");
  };
  EXPECT_LEGAL(text("f32[8,64]", "i32[8,64]"));
  EXPECT_REFUSED(text("f32[8,32]", "i32[8,64]"), "different shapes");
  EXPECT_REFUSED(text("f32[8,64]", "i32[8,32]"), "different shapes");
  EXPECT_REFUSED(text("dl16[8,64]", "i32[8,64]"), "different formats");
  EXPECT_REFUSED(text("f32[8,64]", "f32[8,64]"), "indices are i32");
}

TEST(VerifyGather, RowsAndBoundsFitTheTable) {
  auto text = [](const std::string& data, const std::string& bounds) {
    return steps("buf ix i32[8] x1\n buf t f32[16,32] x1\n buf d " + data +
                 " x1\n sfp ix = 1\n sfp t = 1.0\n sfp.gather d = t[ix in " + bounds + " trap]");
  };
  EXPECT_LEGAL(text("f32[8,32]", "4..20"));
  EXPECT_REFUSED(text("f32[8,32]", "4..21"), "indices of 17 values reach 16 rows");
  EXPECT_REFUSED(text("f32[7,32]", "0..16"), "8 indices for 7 rows");
  EXPECT_REFUSED(text("f32[8,64]", "0..16"), "rows of table and data differ");
  EXPECT_REFUSED(text("dl16[8,32]", "0..16"), "different formats");
}

TEST(VerifyMove, ShapesAndKindsAgree) {
  auto text = [](const std::string& to, const std::string& step) {
    return steps("buf a f32[8,64] x1\n buf b " + to + " x1\n sfp a = 1.0\n mv b = " + step);
  };
  EXPECT_LEGAL(text("dl16[64,8]", "a^T"));
  EXPECT_REFUSED(text("dl16[64,8]", "a"), "different shapes");
  EXPECT_REFUSED(text("i32[8,64]", "a"), "cannot turn integers");
}

TEST(VerifyRing, ShapesAgree) {
  auto text = [](const std::string& to, const std::string& step) {
    return steps("buf a f32[8,64] x1\n buf b " + to + " x1\n sfp a = 1.0\n " + step);
  };
  EXPECT_LEGAL(text("f32[8,64]", "ring.shift b = a over g by 1"));
  EXPECT_LEGAL(text("f32[16,64]", "ring.gather b = a over g"));
  EXPECT_REFUSED(text("f32[16,64]", "ring.shift b = a over g by 1"), "different shapes");
  EXPECT_REFUSED(text("f32[8,64]", "ring.gather b = a over g"), "gathering 8 rows from each of 2 cores");
  EXPECT_REFUSED(text("dl16[8,64]", "ring.shift b = a over g by 1"), "cannot change the format");
}

TEST(VerifyPsum, AddsF32) {
  auto text = [](const std::string& b) { return steps("buf b " + b + " x1\n sfp b = 1.0\n psum b over g to all"); };
  EXPECT_LEGAL(text("f32[8,64]"));
  EXPECT_REFUSED(text("dl16[8,64]"), "psum adds f32");
}

TEST(VerifyAccess, FormatsAndShapesFit) {
  auto text = [](const std::string& buffer, const std::string& entries) {
    return steps("buf b " + buffer + " x1\n ld b = x[" + entries + "]", {"x: in dl16 [4,16,64]"});
  };
  EXPECT_LEGAL(text("dl16[16,64]", "2, 0..16, 0..64"));
  EXPECT_LEGAL(text("dl16[4,16,64]", "0..4, 0..16, 0..64"));
  EXPECT_LEGAL(text("dl16[1,4,16,64]", "0..4, 0..16, 0..64"));
  EXPECT_REFUSED(text("f32[16,64]", "2, 0..16, 0..64"), "do not convert");
  EXPECT_REFUSED(text("dl16[16,64]", "2, 0..8, 0..64"), "has 8 indices for 16 positions");
  EXPECT_REFUSED(text("dl16[16,64]", "0..4, 0..16, 0..64"), "has 3 entries");
  EXPECT_REFUSED(text("dl16[2,4,16,64]", "0..4, 0..16, 0..64"), "3 entries");
}

TEST(VerifyAccess, IndicesAreARowOfI32) {
  auto text = [](const std::string& ix) {
    return steps("buf ix " + ix + " x1\n sfp ix = " + (ix.starts_with("i32") ? "1" : "1.0") +
                     "\n buf b dl16[16,64] x1\n ld b = x[ix in 0..32 trap, 0..64]",
                 {"x: in dl16 [32,64]"});
  };
  EXPECT_LEGAL(text("i32[16]"));
  EXPECT_LEGAL(text("i32[1,16]"));
  EXPECT_REFUSED(text("f32[16]"), "indices are i32");
  EXPECT_REFUSED(text("i32[8]"), "has 8 indices for 16 positions");
  EXPECT_REFUSED(text("i32[2,16]"), "more than one row");
}

TEST(VerifyAccess, DirectionsAreKept) {
  auto text = [](const std::string& direction, const std::string& step) {
    return steps("core m in 0..32 by 16 on g\n buf b dl16[16,64] x1\n sfp b = 1.0\n " + step,
                 {"x: " + direction + " dl16 [32,64]"});
  };
  EXPECT_LEGAL(text("in", "ld b = x[m, 0..64]"));
  EXPECT_LEGAL(text("out", "st x[m, 0..64] = b"));
  EXPECT_REFUSED(text("in", "st x[m, 0..64] = b"), "is an in symbol and cannot be stored");
  EXPECT_REFUSED(text("out", "ld b = x[m, 0..64]"), "is an out symbol and cannot be loaded");
}

}  // namespace
}  // namespace spyre::program
