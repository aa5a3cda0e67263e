// What the assembler makes of text, and what it says about text that is wrong.
#include <gtest/gtest.h>

#include <string>

#include "program/every_statement_text.h"
#include "program/example_text.h"
#include "program/program.h"

namespace spyre::program {
namespace {

using IOp = IntExpr::Op;

/// A kernel around statements: symbols x [256,256] and ids [64], grid a:4, core range m by 64 on a, loop k in m by 16.
std::string around(const std::string& statements) {
  return "kernel t(x: in f32 [256,256], ids: in i32 [64]; len: i32 in 0..256, s: f32 in 0..1) cores 4 {\n"
         "grid(a:4) { core m in 0..256 by 64 on a for k in m by 16 {\n" +
         statements + "\n} } }";
}

const Block& loop_body(const Program& p) { return std::get<For>(p.kernels.at(0).nests.at(0).body.at(1).node).body; }
template <typename T>
const T& op_at(const Program& p, size_t i) {
  return std::get<T>(std::get<Step>(loop_body(p).at(i).node).op);
}

IntExpr start(Id r) { return IntExpr::leaf(IOp::start, r); }
IntExpr size(Id r) { return IntExpr::leaf(IOp::size, r); }

TEST(Assemble, ARangeAsAnEntryMakesStartAndSize) {
  const Program p = assemble(around("buf t f32[16,256] ld t = x[k, 3 ..+ 5] ld t = x[2*k + m.start - 1, 0..256]"));
  const Entry& plain = op_at<Load>(p, 1).from.entries[0];
  EXPECT_EQ(plain.base, start(1));
  EXPECT_EQ(plain.extent, size(1));
  EXPECT_EQ(plain.range, 1);
  const Entry& affine = op_at<Load>(p, 2).from.entries[0];
  EXPECT_EQ(affine.step, 2);
  EXPECT_EQ(affine.extent, size(1));
  EXPECT_EQ(affine.base,
            IntExpr::binary(IOp::sub,
                            IntExpr::binary(IOp::add, IntExpr::binary(IOp::mul, IntExpr::of(2), start(1)), start(0)),
                            IntExpr::of(1)));
}

TEST(Assemble, APointOfARangeThatMayBeEmptyIsEmptyWithIt) {
  const Program p = assemble(
      "kernel t(x: in f32 [8,8,64]) cores 4 { grid(a:4) { core h in 0..3 by 1 on a core g in 0..3 by 1 on a buf t "
      "f32[1,16]"
      " for k in 0..64 by 16 { ld t = x[h, 2*h + g, k] ld t = x[h div 2, 3, 16*h + k] } } }");
  const auto& body = std::get<For>(p.kernels[0].nests[0].body[3].node).body;
  const auto entries = [&](size_t i) { return std::get<Load>(std::get<Step>(body[i].node).op).from.entries; };
  EXPECT_EQ(entries(0)[0].extent, size(0));
  EXPECT_EQ(entries(0)[1].extent, IntExpr::binary(IOp::min, size(0), size(1)));
  EXPECT_EQ(entries(1)[0].extent, size(0));
  EXPECT_EQ(entries(1)[2].extent,
            IntExpr::binary(IOp::min, size(2), IntExpr::binary(IOp::mul, IntExpr::of(16), size(0))));
}

TEST(Assemble, ABufferPositionCountsFromTheInnermostRangeAroundItsDeclaration) {
  const Program p = assemble(
      "kernel t(x: in f32 [256]) cores 4 { buf all f32[1,256] grid(a:4) { core m in 5..256 by 64 on a buf part "
      "f32[1,64]"
      " for k in m by 16 { buf tile f32[1,16] sfp tile[_, k] = all[_, k] sfp part[_, k] = tile for j in 3..9 by 2 {"
      " sfp tile[_, j] = 0 } } } }");
  const auto& body = std::get<For>(p.kernels[0].nests[0].body[2].node).body;
  const auto& own = std::get<Vector>(std::get<Step>(body[1].node).op);
  EXPECT_EQ(own.to[0].box[1].first, IntExpr::of(0));
  EXPECT_EQ(own.value[0].ref.box[1].first, IntExpr::binary(IOp::sub, start(1), IntExpr::of(5)));
  const auto& outer = std::get<Vector>(std::get<Step>(body[2].node).op);
  EXPECT_EQ(outer.to[0].box[1].first, IntExpr::binary(IOp::sub, start(1), start(0)));
  EXPECT_EQ(outer.to[0].box[1].size, size(1));
  const auto& inner = std::get<Vector>(std::get<Step>(std::get<For>(body[3].node).body[0].node).op);
  EXPECT_EQ(inner.to[0].box[1].first, IntExpr::binary(IOp::sub, start(2), IntExpr::of(3)));
}

TEST(Assemble, FirstAndLastAreComparisons) {
  const Program p = assemble(around("if k.first and k.last { fence }"));
  const Condition& c = std::get<If>(loop_body(p).at(0).node).condition;
  EXPECT_EQ(c[0], (Compare{Compare::Op::eq, IntExpr::leaf(IOp::trip, 1), IntExpr::of(0)}));
  EXPECT_EQ(c[1], (Compare{Compare::Op::ge, IntExpr::binary(IOp::add, start(1), IntExpr::of(16)),
                           IntExpr::binary(IOp::add, start(0), size(0))}));
}

TEST(Assemble, SymbolsOfOneShapeAndDefaultGeometryNeedNothingElse) {
  const Program p = assemble(
      "sym a: in dl16 [8,100] sym b: temp f32 [100] strides [1] sym t: in dl16 [100,8] strides [1,100] of [8,100]");
  EXPECT_EQ(p.symbols[0].view, layout::HostView::contiguous({8, 100}));
  EXPECT_EQ(p.symbols[0].geometry, layout::default_placement({8, 100}, {100, 1}, base::HostType::f16, false).geometry);
  EXPECT_EQ(p.symbols[2].geometry, p.symbols[0].geometry);
  EXPECT_EQ(p.symbols[1].direction, Direction::temp);
}

TEST(Assemble, InlineLocsJoinTheTableOnce) {
  const Program p =
      assemble(around("fence @loc(\"a\", \"b:1\") fence @loc(\"c\", \"d:1\") fence @loc(\"a\", \"b:1\") fence"));
  ASSERT_EQ(p.locs.size(), 2u);
  EXPECT_EQ(std::get<Step>(loop_body(p)[2].node).loc, 0);
  EXPECT_EQ(std::get<Step>(loop_body(p)[3].node).loc, none);
}

TEST(Assemble, StepsKnowTheirUnitAndCollective) {
  const Program p = assemble(
      around("buf t f32[16,256] ld t = x[k, 0..256] share(a) psum t over a to all sfp.mm t = t * t pt t = t * t"
             " ring.shift t = t over a by 1 barrier over a mv t = t fence"));
  const Unit units[] = {Unit::ld, Unit::psum, Unit::sfp, Unit::pt, Unit::ring, Unit::sync, Unit::mv, Unit::sync};
  const Id groups[] = {0, 0, none, none, 0, 0, none, none};
  for (size_t i = 0; i < std::size(units); ++i) {
    const Step& step = std::get<Step>(loop_body(p)[i + 1].node);
    EXPECT_EQ(unit_of(step), units[i]) << i;
    EXPECT_EQ(collective_of(step), groups[i]) << i;
  }
}

// ------------------------------------------------------------------------------------------------------------------
// errors

void expect_error(const std::string& text, const std::string& place, const std::string& words) {
  try {
    assemble(text);
    ADD_FAILURE() << "assembled: " << text;
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::program);
    const std::string message = e.what();
    EXPECT_TRUE(message.starts_with(place + ": ")) << message << "\nexpected at " << place;
    EXPECT_NE(message.find(words), std::string::npos) << message << "\nexpected to say: " << words;
  }
}

TEST(AssembleError, NamesPlaceAndWhatWasExpected) {
  expect_error("sym x: by f32 [3]", "1:8", "expected in, out, inout or temp, found 'by'");
  expect_error("sym x: in f33 [3]", "1:11", "f33");
  expect_error("sym x: in f32 [3\nsym y", "2:1", "expected ']'");
  expect_error("sym for: in f32 [3]", "1:5", "reserved");
  expect_error("sym x: in f32 [3] offset 4", "1:5", "'of [sizes]' or 'geo{...}'");
  expect_error("sym x: in f32 [3,4] strides [1]", "1:5", "2 sizes but 1 strides");
  expect_error("sym x: in f32 [3] geo{dl16 n=3 d=64 (1,64,1,64)*1}", "1:5", "geometry holds dl16");
  expect_error("scalar s: i32 in 5..4", "1:18", "not in order");
  expect_error("scalar s: i32 in 0.5..4", "1:18", "an integer");
  expect_error("loc 1 \"a\" \"b\"", "1:5", "numbered in order: expected 0");
  expect_error("hello", "1:1", "expected sym, scalar, loc, kernel or call, found 'hello'");
  expect_error("kernel k() cores 0 {}", "1:18", "must lie in 1..");
  expect_error("kernel k() cores 4 { grid(a:3, b:2) {} }", "1:22", "more than the kernel's 4 cores");
  expect_error("kernel k() cores 4 { grid(a:3) {", "1:33", "expected a statement");
  expect_error("$", "1:1", "unexpected character '$'");
  expect_error("sym x: in f32 [99999999999999999999]", "1:16", "too large");
  expect_error("loc 0 \"abc", "1:7", "closing quote");
}

TEST(AssembleError, Names) {
  expect_error(around("buf k f32[4]"), "3:5", "'k' is already a range here");
  expect_error(around("buf x f32[4]"), "3:5", "'x' is already a formal here");
  expect_error(around("for j in q by 1 { }"), "3:10", "unknown name 'q'");
  expect_error(around("sfp y = 1"), "3:5", "expected a buffer, found 'y'");
  expect_error(around("buf t f32[4] ld t = t[k]"), "3:21", "expected a symbol of the kernel");
  expect_error(around("buf t f32[4] sfp t = x"), "3:22", "load it into a buffer first");
  expect_error(around("buf t f32[4] sfp t = k"), "3:22", "write k.start");
  expect_error(around("if 1 == 1 { buf t f32[4] } sfp t = 0"), "3:32", "expected a buffer, found 't'");
  expect_error(around("fence barrier over b"), "3:20", "expected a grid dimension of this nest, found 'b'");
  expect_error("sym x: in f32 [3] sym x: in f32 [3]", "1:23", "symbol 'x' is already defined");
  expect_error("kernel k() cores 1 {} kernel k() cores 1 {}", "1:30", "already defined");
  expect_error("call k()", "1:6", "expected the name of a kernel above");
  expect_error(around("core m in 0..4 by 1 on a"), "3:6", "already a range");
}

TEST(AssembleError, RanksAndRanges) {
  expect_error(around("buf t f32[4] ld t = x[k]"), "3:21", "x has 2 dimensions, the access names 1");
  expect_error(around("buf t f32[4] sfp t[0, 1] = 0"), "3:18", "t has 1 dimensions, not 2");
  expect_error(around("buf t f32[4] ld t = x[m + k, 0]"), "3:23", "two ranges that advance by more than 1 (m and k)");
  expect_error(around("buf t f32[4] ld t = x[k div 2, 0]"), "3:23", "outside div, mod, min and max");
  expect_error(around("buf t f32[4] ld t = x[0 - k, 0]"), "3:23", "constant factor >= 1");
  expect_error(around("buf t f32[4] ld t = x[7..3, 0]"), "3:23", "ends before it starts");
  expect_error(around("for j in 0..len by len { }"), "3:20", "must be a constant");
  expect_error(around("for j in 0..len div len by 2 { }"), "3:17", "by a positive constant");
  expect_error(around("for j in 0..s by 2 { }"), "3:13", "only i32 scalars steer");
  expect_error(around("buf t i32[4] if t == 0 { }"), "3:17", "it does not steer");
  expect_error(around("if m.first { }"), "3:4", "core range");
  expect_error(around("buf t f32[4,0]"), "3:13", "must lie in 1..");
  expect_error(around("buf t f32[4] x0"), "3:14", "can't have 0 slots");
  expect_error(around("buf t f32[4] @100"), "3:5", "multiple of 128");
  expect_error(around("buf t f32[4] pieces(1:2)"), "3:21", "a dimension must lie in 0..0");
  expect_error("kernel k(x: in f32 [4]) cores 1 {} sym y: in f32 [5] call k(y)", "1:61", "differs from formal x");
  expect_error("kernel k(x: in f32 [4]) cores 1 {} call k()", "1:41", "takes 1 symbols, the call gives 0");
}

TEST(AssembleError, Types) {
  const std::string buffers = "buf f f32[4] buf i i32[4] ";
  expect_error(around(buffers + "sfp f = f + i"), "3:37", "cast with f32(x) or i32(x)");
  expect_error(around(buffers + "sfp f = i"), "3:35", "f32 is wanted here, this is i32: cast with f32(x)");
  expect_error(around(buffers + "sfp i = 1.5"), "3:35", "i32 is wanted here");
  expect_error(around(buffers + "sfp f = f < i ? 1 : 0"), "3:37", "of one type");
  expect_error(around(buffers + "sfp f = f ? 1 : 0"), "3:35", "takes a predicate");
  expect_error(around(buffers + "sfp f = f < 1 ? f : i"), "3:35", "two values of one type");
  expect_error(around(buffers + "sfp i = exp(i)"), "3:35", "exp takes f32");
  expect_error(around(buffers + "sfp f = f +! f"), "3:37", "! belongs to i32");
  expect_error(around(buffers + "sfp f = f and f"), "3:37", "and takes i32, not f32");
  expect_error(around(buffers + "sfp f = fma(f, f)"), "3:35", "fma takes 3 arguments, not 2");
  expect_error(around(buffers + "sfp f = quux(f)"), "3:35", "unknown function 'quux'");
  expect_error(around(buffers + "sfp f, i = f"), "3:36", "2 results need as many expressions");
  expect_error(around(buffers + "sfp f = f^T"), "3:35", "can't be transposed");
  expect_error(around(buffers + "sfp.red f = sum!(f over 0)"), "3:39", "! belongs to sum and prod of i32");
  expect_error(around(buffers + "sfp.red f = any(f over 0)"), "3:43", "compare it, as in x != 0");
  expect_error(around(buffers + "sfp.red f = welford(f over 0)"), "3:39", "welford has 3 state buffers, not 1");
  expect_error(around(buffers + "sfp.scan f, f = sum(f, i)"), "3:50", "must be the carry f");
  expect_error(around(buffers + "sfp.scan f, f = argmax(f, f)"), "3:43", "expected sum prod max or min");
  expect_error(around(buffers + "sfp i = 3000000000"), "3:35", "outside i32");
  expect_error(around(buffers + "pt f = f * f init(k)"), "3:40", "init belongs to +=");
}

TEST(AssembleError, HostileNestingIsAnErrorAndNotAStackOverflow) {
  const std::string open(100'000, '(');
  std::string minus, no, blocks, macros, sums = "f";
  for (int i = 0; i < 100'000; ++i) minus += "-";
  for (int i = 0; i < 100'000; ++i) no += "not ";
  for (int i = 0; i < 10'000; ++i) blocks += "if 1 == 1 { ";
  for (int i = 0; i < 50; ++i) macros += "gelu_tanh(";
  for (int i = 0; i < 100'000; ++i) sums += " + f";
  std::string choices, lengths;
  for (int i = 0; i < 100'000; ++i) choices += "f < 1 ? f : ";
  for (int i = 0; i < 100'000; ++i) lengths += "len + ";
  for (const std::string& text : {"sfp f = " + open, "sfp f = " + minus + "f", "sfp f = " + no + "f", blocks,
                                  "sfp f = " + macros + "f", "sfp f = " + sums, "sfp f = " + choices + "f",
                                  "if " + lengths + "1 == 0 { }", "if " + open, "if " + minus + "len == 0 { }"}) {
    EXPECT_THROW(assemble(around("buf f f32[4] " + text)), Error) << text.substr(0, 20);
  }
}

}  // namespace
}  // namespace spyre::program
