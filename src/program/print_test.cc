#include <gtest/gtest.h>

#include "program/every_statement_text.h"
#include "program/example_text.h"
#include "program/program.h"

namespace spyre::program {
namespace {

void expect_round_trip(const std::string& text) {
  const Program program = assemble(text);
  const std::string printed = print(program);
  const Program again = assemble(printed);
  EXPECT_EQ(print(again), printed);
  EXPECT_EQ(write(again), write(program)) << printed;
}

class Example : public testing::TestWithParam<const char*> {};

TEST_P(Example, PrintsAndAssemblesToAnEqualTree) {
  const Program program = assemble(example_text(GetParam()));
  EXPECT_EQ(program, assemble(print(program))) << print(program);
  expect_round_trip(example_text(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Worked, Example, testing::ValuesIn(example_names),
                         [](const auto& info) { return std::string(info.param); });

TEST(Print, EveryStatementReadsBackAsTheSameTree) { expect_round_trip(every_statement); }

/// The value of `sfp v = TEXT` as it is printed.
std::string reprint(const std::string& text, const std::string& format = "f32") {
  const Program p = assemble(
      "kernel k(;n: i32 in 0..9, a: f32 in 0..1) cores 4 { grid(g:4) { core r in 0..64 by 16 on g\n buf i i32[16,64]"
      " buf v " +
      format + "[16,64] sfp v = " + text + " } }");
  const std::string printed = print(p);
  const size_t at = printed.find("sfp v = ") + 8;
  return printed.substr(at, printed.find('\n', at) - at);
}

TEST(Print, KeepsOnlyTheParenthesesThatMatter) {
  EXPECT_EQ(reprint("((v) + (v * v)) - (v - v)"), "v + v * v - (v - v)");
  EXPECT_EQ(reprint("(v + v) * v / (v * v)"), "(v + v) * v / (v * v)");
  EXPECT_EQ(reprint("-(-v) - (-(v * v))"), "--v - -(v * v)");
  EXPECT_EQ(reprint("(v < 1 ? v : 2) + 1"), "(v < 1.0 ? v : 2.0) + 1.0");
  EXPECT_EQ(reprint("v < 1 ? v : (v < 2 ? 3 : 4)"), "v < 1.0 ? v : v < 2.0 ? 3.0 : 4.0");
  EXPECT_EQ(reprint("(v < 1 ? v < 3 : v < 4) ? 1 : 2"), "(v < 1.0 ? v < 3.0 : v < 4.0) ? 1.0 : 2.0");
  EXPECT_EQ(reprint("not (v < 1 and v > 0) or not v == 2 ? 1 : 0"),
            "not (v < 1.0 and v > 0.0) or not v == 2.0 ? 1.0 : 0.0");
  EXPECT_EQ(reprint("(i shl 2) + (i and (1 or i))", "i32"), "(i shl 2) + (i and (1 or i))");
  EXPECT_EQ(reprint("-(1) + -1 - -(2)", "i32"), "-(1) + -1 - -(2)");
}

TEST(Print, LiteralsTakeTheTypeTheyAreUsedWith) {
  EXPECT_EQ(reprint("1"), "1.0");
  EXPECT_EQ(reprint("1", "i32"), "1");
  EXPECT_EQ(reprint("i < 3 ? 1 : 0"), "i < 3 ? 1.0 : 0.0");
  EXPECT_EQ(reprint("iota1 < r.size ? v : 2 - 3"), "iota1 < r.size ? v : 2.0 - 3.0");
  EXPECT_EQ(reprint("f32(1 + i) * a"), "f32(1 + i) * a");
  EXPECT_EQ(reprint("exp(2)"), "exp(2.0)");
  EXPECT_EQ(reprint("1e-5 + 1e30 + 0.1"), "1e-05 + 1e+30 + 0.1");
  EXPECT_EQ(reprint("-inf"), "-inf");
  EXPECT_EQ(reprint("max(nan, -0.0)"), "max(nan, -0.0)");
}

TEST(Print, ShowsTheLxOffsetThatTheAssemblerChose) {
  const std::string text = print(assemble("kernel k() cores 1 { grid() { buf a f32[1] x2 buf b f32[40] } }"));
  EXPECT_NE(text.find("buf a f32[1] x2 @0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("buf b f32[40] x1 @256\n"), std::string::npos) << text;
}

TEST(Print, AnEntryIsShortOnlyWhereShortMeansTheSame) {
  Program p = assemble(
      "kernel k(x: in f32 [64,64]) cores 4 { grid(g:4) { core r in 0..64 by 16 on g buf t f32[16,64]"
      " ld t = x[r, 0..64] } }");
  auto& load = std::get<Load>(std::get<Step>(p.kernels[0].nests[0].body[2].node).op);
  auto line = [&] {
    const std::string text = print(p);
    EXPECT_EQ(assemble(text), p) << text;
    const size_t at = text.find("ld t");
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_EQ(line(), "ld t = x[r, 0..64]");
  load.from.entries[0].range = none;
  EXPECT_EQ(line(), "ld t = x[r.start ..+ r.size, 0..64]");
  load.from.entries[0].extent = IntExpr::of(16);
  EXPECT_EQ(line(), "ld t = x[r.start ..+ 16, 0..64]");
  load.from.entries[0].extent = IntExpr::of(1);
  EXPECT_EQ(line(), "ld t = x[r.start, 0..64]");
  load.from.entries[0].step = 3;
  EXPECT_EQ(line(), "ld t = x[r.start ..+ 1 by 3, 0..64]");
  load.from.entries[1].base = IntExpr::of(1);
  EXPECT_EQ(line(), "ld t = x[r.start ..+ 1 by 3, 1..65]");
}

}  // namespace
}  // namespace spyre::program
