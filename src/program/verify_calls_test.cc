// Calls: what may be bound to what, and when a symbol holds data.
#include <functional>
#include <random>
#include <set>

#include "program/verify_coverage.h"
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
kernel turn(x: in f32 [4,32], y: out f32 [4,32]) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  ld o = x[3 - m.start, 0..32]
  st y[m, 0..32] = o } }
kernel halves(x: in f32 [2,32] of [4,32], w: in f32 [2,32] strides [32,1] offset 64 of [4,32], y: out f32 [4,32]) cores 32 {
  grid(a:2) { core m in 0..2 by 1 on a
  buf o f32[1,32] x1
  buf p f32[1,32] x1
  ld o = x[m, 0..32]
  ld p = w[m, 0..32]
  st y[m, 0..32] = p
  st y[m.start + 2, 0..32] = o } }
kernel low(y: out f32 [2,32] of [4,32]) cores 32 { grid(a:2) { core m in 0..2 by 1 on a
  buf o f32[1,32] x1
  sfp o = 1.0
  st y[m, 0..32] = o } }
kernel high(y: out f32 [2,32] strides [32,1] offset 64 of [4,32]) cores 32 { grid(a:2) { core m in 0..2 by 1 on a
  buf o f32[1,32] x1
  sfp o = 1.0
  st y[m, 0..32] = o } }
kernel only_low(x: in f32 [2,32] of [4,32], y: out f32 [4,32]) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  ld o = x[m, 0..32]
  st y[m, 0..32] = o } }
kernel scratch(t: temp f32 [4,32]) cores 32 { grid(a:4) { core m in 0..4 by 1 on a
  buf o f32[1,32] x1
  sfp o = 1.0
  st t[m, 0..32] = o } }
)";

std::string calls(const std::string& text, const std::string& scalar = "0..8", const std::string& more = "") {
  return "sym x: in f32 [4,32]\nsym t: temp f32 [4,32]\nsym u: temp f32 [4,32]\nsym io: inout f32 [4,32]\nsym y: out "
         "f32 [4,32]\nscalar n: i32 in " +
         scalar + "\n" + kernels + more + text + "\n";
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

TEST(VerifyCalls, PiecesOfSticksWrittenInOrderAreCovered) {
  const auto text = [](const std::string& trips) {
    return calls("call pieces(t)\ncall use(t, x, y)", "0..8",
                 "kernel pieces(y: out f32 [4,32]) cores 1 { grid(a:1) { for m in 0..4 by 1 { for i in " + trips +
                     " { buf o f32[1,8] x1\n sfp o = 1.0\n st y[m, i] = o ordered } } } }\n");
  };
  EXPECT_LEGAL(text("0..32 by 8"));
  EXPECT_REFUSED(text("0..24 by 8"), "temp symbol t is read before");
}

TEST(VerifyCalls, AnOutSymbolIsReadOnceItIsWritten) {
  EXPECT_LEGAL(calls("call make(y)\ncall use(y, x, t)"));
  EXPECT_REFUSED(calls("call use(y, x, t)"), "out symbol y is read before");
}

TEST(VerifyCalls, OneSymbolForTwoFormalsToReadOrInPlace) {
  EXPECT_LEGAL(calls("call use(x, x, y)"));
  EXPECT_LEGAL(calls("call use(io, x, io)"));  // each box is loaded before it is stored
  EXPECT_LEGAL(calls("call use(io, io, io)"));
  EXPECT_REFUSED(calls("call turn(io, io)"), "formals that are one symbol");
  EXPECT_LEGAL(calls("call turn(x, io)"));
}

TEST(VerifyCalls, FormalsAreViewsOfTheirSymbol) {
  EXPECT_LEGAL(calls("call halves(x, x, y)"));
  EXPECT_LEGAL(calls("call low(t)\ncall high(t)\ncall use(t, t, y)"));
  EXPECT_LEGAL(calls("call low(t)\ncall only_low(t, y)"));
  EXPECT_REFUSED(calls("call low(t)\ncall use(t, x, y)"), "temp symbol t is read before");
  EXPECT_REFUSED(calls("call high(t)\ncall only_low(t, y)"), "temp symbol t is read before");
  EXPECT_REFUSED(calls("call only_low(io, io)"), "which are different views of it");
  EXPECT_REFUSED(calls("call use(x, x, y)", "0..8", "kernel out_of_it(x: in f32 [5,32] of [4,32]) cores 1 { }"),
                 "reaches element");
}

TEST(Coverage, KnowsWhatIsWritten) {
  std::mt19937_64 random(5);
  const auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  for (int round = 0; round < 500; ++round) {
    verifier::Coverage coverage;
    std::set<int64_t> written;
    const auto each = [](const layout::HostView& v, const std::function<void(int64_t)>& fn) {
      for (int64_t i = 0; i < v.numel(); ++i) {
        int64_t rest = i, o = v.offset;
        for (size_t d = v.sizes.size(); d-- > 0; rest /= v.sizes[d]) o += rest % v.sizes[d] * v.strides[d];
        fn(o);
      }
    };
    for (int step = 0; step < 8; ++step) {
      layout::HostView v;
      for (int64_t d = pick(0, 3); d > 0; --d)
        v.sizes.push_back(pick(0, 9) ? pick(1, 4) : 0), v.strides.push_back(pick(0, 6));
      v.offset = pick(0, 12);
      bool all = true;
      each(v, [&](int64_t o) { all = all && written.count(o); });
      ASSERT_EQ(coverage.covers(v), all) << v.to_text();
      coverage.add(v);
      each(v, [&](int64_t o) { written.insert(o); });
      ASSERT_TRUE(coverage.covers(v)) << v.to_text();
    }
  }
}

TEST(VerifyCalls, ScalarsStayInsideTheKernelsBounds) {
  EXPECT_LEGAL(calls("call update(io; n)", "2..8"));
  EXPECT_REFUSED(calls("call update(io; n)", "0..9"), "leaves the bounds 0..8 of n");
}

TEST(VerifyCalls, SymbolsEqualTheirFormals) {
  Program p = assemble(calls("call use(x, x, y)"));
  EXPECT_LEGAL(p);
  p.symbols[0].geometry.storage_elements = 127;
  EXPECT_NE(verdict(p).find("differ in format or geometry"), std::string::npos);
}

TEST(VerifyCalls, TheContractHoldsWithoutCalls) {
  EXPECT_LEGAL(calls(""));
  std::string text = calls("");
  text.replace(text.find("cores 32"), 8, "cores 40");
  EXPECT_REFUSED(text, "40 cores");
}

}  // namespace
}  // namespace spyre::program
