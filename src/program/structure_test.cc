// Trees that no text makes: structure refuses them before anybody walks them.
#include "program/structure.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "program/every_statement_text.h"
#include "program/example_text.h"
#include "program/program.h"

namespace spyre::program {
namespace {

Program good() {
  return assemble(
      "sym a: in f32 [64,64] scalar n: i32 in 0..64 loc 0 \"op\" \"x.py:1\" "
      "kernel k(x: in f32 [64,64]; len: i32 in 0..64) cores 4 { grid(g:4) { core m in 0..64 by 16 on g for i in m by 4 "
      "{"
      " buf t f32[4,64] ld t = x[i, 0..64] sfp t = t + 1 @loc(0) if i.first { fence } } } } call k(a; n)");
}
Block& loop(Program& p) { return std::get<For>(p.kernels[0].nests[0].body[1].node).body; }
Step& step(Program& p, size_t i) { return std::get<Step>(loop(p)[i].node); }
Load& load(Program& p) { return std::get<Load>(step(p, 1).op); }
Vector& vector(Program& p) { return std::get<Vector>(step(p, 2).op); }

void expect_refused(const std::string& words, const std::function<void(Program&)>& harm) {
  Program p = good();
  check_structure(p);
  harm(p);
  for (const auto& use : {std::function<void()>([&] { check_structure(p); }), std::function<void()>([&] { print(p); }),
                          std::function<void()>([&] { write(p); })}) {
    try {
      use();
      ADD_FAILURE() << "accepted, expected: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::program);
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what() << "\nexpected: " << words;
    }
  }
}

TEST(Structure, RefusesIdsOutOfRangeOrScope) {
  expect_refused("buffer 7 is not in scope", [](Program& p) { load(p).to.buffer = 7; });
  expect_refused("buffer -1 is not in scope", [](Program& p) { load(p).to.buffer = none; });
  expect_refused("names no symbol", [](Program& p) { load(p).from.symbol = 1; });
  expect_refused("range 5 is not in scope", [](Program& p) { load(p).from.entries[0].base.id = 5; });
  expect_refused("no grid dimension 3", [](Program& p) { load(p).share = 3; });
  expect_refused("a step names no loc", [](Program& p) { step(p, 1).loc = 1; });
  expect_refused("op at x.py:1", [](Program& p) { vector(p).to[0].buffer = 3; });
  expect_refused("a call names no kernel", [](Program& p) { p.calls[0].kernel = -1; });
  expect_refused("names no symbol for x", [](Program& p) { p.calls[0].symbols[0] = 4; });
  expect_refused("gives 0 symbols and 1 scalars, it takes 1 and 1", [](Program& p) { p.calls[0].symbols.clear(); });
  expect_refused("range 1 is not in scope", [](Program& p) {
    Stmt& late = p.kernels[0].nests[0].body.emplace_back();
    late.node.emplace<If>().condition = {{Compare::Op::eq, IntExpr::leaf(IntExpr::Op::trip, 1), IntExpr::of(0)}};
  });
}

TEST(Structure, RefusesTablesThatDoNotFollowTheText) {
  expect_refused("a buffer is declared nowhere",
                 [](Program& p) { p.kernels[0].buffers.push_back(p.kernels[0].buffers[0]); });
  expect_refused("a range stands nowhere", [](Program& p) { p.kernels[0].ranges.push_back(p.kernels[0].ranges[0]); });
  expect_refused("ids follow the text", [](Program& p) { loop(p).emplace_back().node = Declare{0}; });
  expect_refused("core range in one place and a loop in the other",
                 [](Program& p) { p.kernels[0].ranges[1].is_core = true; });
}

TEST(Structure, RefusesNamesThatTextCanNotTell) {
  expect_refused("no legal name", [](Program& p) { p.kernels[0].ranges[0].name = "for"; });
  expect_refused("no legal buffer name", [](Program& p) { p.kernels[0].buffers[0].name = "a b"; });
  expect_refused("name x means two things", [](Program& p) { p.kernels[0].buffers[0].name = "x"; });
  expect_refused("two symbols are called a", [](Program& p) { p.symbols.push_back(p.symbols[0]); });
}

TEST(Structure, RefusesLengthsSizesAndStrayFields) {
  expect_refused("x has 2 dimensions, the access 1", [](Program& p) { load(p).from.entries.pop_back(); });
  expect_refused("t has 2 dimensions, the operand 1", [](Program& p) { load(p).to.box.resize(1); });
  expect_refused("slots", [](Program& p) { p.kernels[0].buffers[0].slots = 0; });
  expect_refused("2^31 bytes",
                 [](Program& p) { p.kernels[0].buffers[0].shape = {1 << 20, 1 << 20, 1 << 20, 1 << 20}; });
  expect_refused("multiple of 128", [](Program& p) { p.kernels[0].buffers[0].lx_offset = 4; });
  expect_refused("pieces", [](Program& p) { p.kernels[0].buffers[0].piece_dim = 2; });
  expect_refused("advances by 0", [](Program& p) { p.kernels[0].ranges[1].by = 0; });
  expect_refused("not the bounds of its parent", [](Program& p) { p.kernels[0].ranges[1].hi = IntExpr::of(3); });
  expect_refused("both affine and indexed", [](Program& p) { load(p).from.entries[0].hi = IntExpr::of(3); });
  expect_refused("a stray value", [](Program& p) { load(p).from.entries[0].base.value = 3; });
  expect_refused("wrong number of arguments", [](Program& p) { load(p).from.entries[0].base.op = IntExpr::Op::add; });
  expect_refused("stray field", [](Program& p) { vector(p).value[0].number = 2; });
  expect_refused("as many values as results", [](Program& p) { vector(p).value.clear(); });
  expect_refused("symbol a", [](Program& p) { p.symbols[0].view.strides.pop_back(); });
  expect_refused("symbol a", [](Program& p) { p.symbols[0].geometry.digits[0].div1 = 0; });
  expect_refused("more than the kernel's 4 cores", [](Program& p) { p.kernels[0].nests[0].grid[0].size = 5; });
  expect_refused("an if without a condition", [](Program& p) { std::get<If>(loop(p)[3].node).condition.clear(); });
  expect_refused("positive constant", [](Program& p) {
    load(p).from.entries[1].base = IntExpr::binary(IntExpr::Op::mod, IntExpr::of(3), IntExpr::of(0));
  });
}

TEST(Structure, RefusesIllTypedExpressions) {
  expect_refused("the type of another format", [](Program& p) { vector(p).value[0].args[0].type = Reg::i32; });
  expect_refused("+ gives f32", [](Program& p) { vector(p).value[0].type = Reg::i32; });
  expect_refused("of one type", [](Program& p) {
    VecExpr& one = vector(p).value[0].args[1];
    one = VecExpr{};
    one.op = VecOp::constant_i;
    one.type = Reg::i32;
  });
  expect_refused("! belongs to i32 results", [](Program& p) { vector(p).value[0].trap = true; });
}

}  // namespace
}  // namespace spyre::program
