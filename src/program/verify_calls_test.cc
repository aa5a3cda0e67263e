// Calls: what may be bound to what, and when a symbol holds data.
#include "program/verify_text.h"

namespace spyre::program {
namespace {

/// Kernel `make` writes y; `use` reads x and writes y.
const char* const kernels = R"(
kernel make(y: out f32 [4,32]) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  sfp o = 1.0
  st y[m, 0..32] = o } }
kernel part(y: out f32 [4,32]) cores 32 { grid(a:2) { core m in 0..2 by 1 on a
  buf o f32[1,32] x1
  sfp o = 1.0
  st y[m, 0..32] = o } }
kernel use(x: in f32 [4,32], w: in f32 [4,32], y: out f32 [4,32]) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  ld o = x[m, 0..32]
  st y[m, 0..32] = o } }
kernel update(y: inout f32 [4,32]; n: i32 in 0..8) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  ld o = y[m, 0..32]
  st y[m, 0..32] = o } }
kernel scratch(t: temp f32 [4,32]) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  sfp o = 1.0
  st t[m, 0..32] = o } }
)";

std::string calls(const std::string& text, const std::string& scalar = "0..8") {
  return "sym x: in f32 [4,32]\nsym t: temp f32 [4,32]\nsym u: temp f32 [4,32]\nsym io: inout f32 [4,32]\nsym y: out "
         "f32 [4,32]\nscalar n: i32 in " +
         scalar + "\n" + kernels + text + "\n";
}

TEST(VerifyCalls, DirectionsFit) {
  EXPECT_LEGAL(calls("call use(x, x, y)"));
  EXPECT_LEGAL(calls("call use(io, x, y)"));
  EXPECT_LEGAL(calls("call update(io; n)"));
  EXPECT_LEGAL(calls("call make(io)"));
  EXPECT_LEGAL(calls("call scratch(t)"));
  EXPECT_REFUSED(calls("call make(x)"), "symbol x is in, but formal y is out");
  EXPECT_REFUSED(calls("call update(x; n)"), "symbol x is in, but formal y is inout");
  EXPECT_REFUSED(calls("call scratch(y)"), "symbol y is out, but formal t is temp");
  EXPECT_REFUSED(calls("call scratch(io)"), "symbol io is inout, but formal t is temp");
}

TEST(VerifyCalls, ATempIsWrittenByAnEarlierCall) {
  EXPECT_LEGAL(calls("call make(t)\ncall use(t, t, y)"));
  EXPECT_LEGAL(calls("call scratch(t)\ncall use(t, x, y)"));
  EXPECT_LEGAL(calls("call make(t)\ncall update(t; n)\ncall use(t, x, y)"));
  EXPECT_REFUSED(calls("call use(t, x, y)"), "temp symbol t is read before");
  EXPECT_REFUSED(calls("call use(x, t, y)\ncall make(t)"), "temp symbol t is read before");
  EXPECT_REFUSED(calls("call update(t; n)"), "temp symbol t is read before");
  EXPECT_REFUSED(calls("call part(t)\ncall use(t, x, y)"), "temp symbol t is read before");
}

TEST(VerifyCalls, AnOutSymbolIsReadOnceItIsWritten) {
  EXPECT_LEGAL(calls("call make(y)\ncall use(y, x, t)"));
  EXPECT_REFUSED(calls("call use(y, x, t)"), "out symbol y is read before");
}

TEST(VerifyCalls, OneSymbolForTwoFormalsOnlyToRead) {
  EXPECT_LEGAL(calls("call use(x, x, y)"));
  EXPECT_REFUSED(calls("call use(x, io, io)"), "symbol io is bound to both w and y");
}

TEST(VerifyCalls, ScalarsStayInsideTheKernelsBounds) {
  EXPECT_LEGAL(calls("call update(io; n)", "2..8"));
  EXPECT_REFUSED(calls("call update(io; n)", "0..9"), "leaves the bounds 0..8 of n");
}

TEST(VerifyCalls, SymbolsEqualTheirFormals) {
  Program p = assemble(calls("call use(x, x, y)"));
  EXPECT_LEGAL(p);
  p.symbols[0].view.sizes[0] = 3;
  EXPECT_NE(verdict(p).find("differ in format, view or geometry"), std::string::npos);
}

TEST(VerifyCalls, TheContractHoldsWithoutCalls) {
  EXPECT_LEGAL(calls(""));
  std::string text = calls("");
  text.replace(text.find("cores 32"), 8, "cores 40");
  EXPECT_REFUSED(text, "40 cores");
}

}  // namespace
}  // namespace spyre::program
