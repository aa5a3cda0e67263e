// Memory, launches and the checker: what they refuse and how they say so.
#include <fstream>
#include <thread>

#include "card/expr.h"
#include "card/machine_for_test.h"

namespace spyre::card {
namespace {

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

TEST(Memory, CommitsPagesOnlyWhereWritten) {
  const int64_t before = resident_bytes();
  Memory memory(device::load_description());
  EXPECT_EQ(memory.size(), device::load_description().address_space_bytes);
  *memory.at(static_cast<uint64_t>(memory.size()) - 1, 1) = std::byte{5};
  *memory.at(0, 1) = std::byte{7};
  EXPECT_LT(resident_bytes() - before, int64_t{16} << 20);
  EXPECT_EQ(*memory.at(int64_t{40} << 30, 1), std::byte{0});
}

TEST(Memory, RefusesRangesOutsideItsAddressSpace) {
  Memory memory(device::load_description());
  const auto size = static_cast<uint64_t>(memory.size());
  EXPECT_NO_THROW(memory.at(size, 0));
  EXPECT_THROW(memory.at(size, 1), Error);
  EXPECT_THROW(memory.at(size - 10, 11), Error);
  EXPECT_THROW(memory.at(~uint64_t{0}, 128), Error);
  EXPECT_THROW(memory.at(0, -1), Error);
}

TEST(Memory, DiscardedBytesReadAsZeroAndNeighboursStay) {
  Memory memory(device::load_description());
  std::memset(memory.at(0, 100000), 1, 100000);
  memory.discard(1000, 50000);
  memory.discard(60000, 10);
  EXPECT_EQ(*memory.at(999, 1), std::byte{1});
  EXPECT_EQ(*memory.at(1000, 1), std::byte{0});
  EXPECT_EQ(*memory.at(50999, 1), std::byte{0});
  EXPECT_EQ(*memory.at(51000, 1), std::byte{1});
  EXPECT_EQ(*memory.at(60009, 1), std::byte{0});
  EXPECT_EQ(*memory.at(60010, 1), std::byte{1});
}

TEST(Expr, EvaluatesAffineAndTreeForms) {
  using program::IntExpr;
  using Op = IntExpr::Op;
  VarMap vars;
  vars.ranges = 1, vars.grid = 1, vars.scalars = 1;
  const int64_t v[] = {7, 3, 2, 5, -9};  // start size trip, coordinate, scalar
  const auto start = IntExpr::leaf(Op::start, 0), scalar = IntExpr::leaf(Op::scalar, 0);
  const auto affine = IntExpr::binary(Op::sub, IntExpr::binary(Op::mul, IntExpr::of(4), start), scalar);
  EXPECT_EQ(Expr(affine, vars)(v), 37);
  EXPECT_EQ(Expr(IntExpr::binary(Op::sub, start, start), vars).is_constant(0), true);
  EXPECT_EQ(Expr(IntExpr::binary(Op::div, scalar, IntExpr::of(4)), vars)(v), -3);
  EXPECT_EQ(Expr(IntExpr::binary(Op::mod, scalar, IntExpr::of(4)), vars)(v), 3);
  EXPECT_EQ(Expr(IntExpr::binary(Op::min, affine, IntExpr::leaf(Op::coordinate, 0)), vars)(v), 5);
}

std::string add_one() {
  return one_kernel(
      {"x: in f32 [4,64]", "y: out f32 [4,64]"}, "c:4",
      "core r in 0..4 by 1 on c\n buf a f32[1,64] x1\n ld a = x[r, 0..64]\n sfp a = a + s\n st y[r, 0..64] = a",
      {"s: f32 in -10..10"});
}

TEST(Card, RefusesBadBindingsAndStaysUsable) {
  Machine m(add_one());
  const auto x = m.set("x", noise(1));
  m.scalar("s", 11);
  EXPECT_THROW(m.run(), Error);
  auto start = [&](std::vector<uint64_t> addresses) {
    const auto table = correction_table(m.program(), addresses, {1.0});
    const uint64_t at = static_cast<uint64_t>(m.card().description().segment_bytes) * 7;
    std::memcpy(m.card().memory().at(at, static_cast<int64_t>(table.size())), table.data(), table.size());
    m.card().start(m.executable(), at);
  };
  const auto end = static_cast<uint64_t>(m.card().memory().size());
  EXPECT_THROW(start({4096, end - 128}), Error);
  EXPECT_THROW(start({4096, ~uint64_t{127}}), Error);
  EXPECT_THROW(start({4097, 8192}), Error);
  EXPECT_THROW(m.card().start(m.executable(), end), Error);
  EXPECT_THROW(correction_table(m.program(), {1}, {1.0}), Error);
  m.scalar("s", 2);
  m.run();
  EXPECT_EQ(m.get("y")[5], static_cast<double>(static_cast<float>(x[5]) + 2.0f));
}

TEST(Card, LaunchesOfSeveralThreadsDoNotMeet) {
  Machine m(one_kernel({"x: in f32 [64,640]", "y: out f32 [64,640]"}, "c:8",
                       "core r in 0..64 by 8 on c\n buf a f32[8,640] x1\n ld a = x[r, 0..640]\n psum a over c to all\n "
                       "st y[r, 0..640] = a"));
  m.set("x", noise(1));
  m.run();
  const auto expected = m.get("y");
  std::vector<std::thread> threads;
  const auto& program = m.program();
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      const uint64_t out = uint64_t{1} << (30 + t),
                     at = static_cast<uint64_t>(m.card().description().segment_bytes) * 7 + 4096 * (t + 1);
      const auto table = correction_table(program, {4096, out}, {});
      std::memcpy(m.card().memory().at(at, static_cast<int64_t>(table.size())), table.data(), table.size());
      for (int i = 0; i < 20; ++i) m.card().start(m.executable(), at);
    });
  for (auto& t : threads) t.join();
  const auto bytes = m.bytes("y");
  for (int t = 0; t < 3; ++t)
    EXPECT_EQ(std::memcmp(m.card().memory().at(uint64_t{1} << (30 + t), static_cast<int64_t>(bytes.size())),
                          bytes.data(), bytes.size()),
              0);
  EXPECT_EQ(m.get("y"), expected);
}

TEST(Card, TimelinesAreCachedByTheScalarsThatMatter) {
  Machine m(add_one());
  const auto& a = m.executable().timeline({1.0});
  const auto& b = m.executable().timeline({2.0});
  EXPECT_EQ(&a, &b);  // the scalar only enters arithmetic
  EXPECT_GT(a.total_ps, 0);
  EXPECT_GT(m.executable().image_bytes(), 0);
}

TEST(Card, SkippedRowsAreFilledSoThatNoDataMakesAReadUndefined) {
  Machine m(one_kernel({"x: in f32 [4,64]", "y: out f32 [4,64]"}, "c:1",
                       "buf ix i32[4] x1\n sfp ix = iota0 * 3\n buf a f32[4,64] x1\n"
                       "ld a = x[ix in 0..4 skip, 0..64] fill 7\n st y[0..4, 0..64] = a @loc(0)"));
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t i = 0; i < 4 * 64; ++i) EXPECT_EQ(y[i], i < 128 ? x[i / 64 * 192 + i % 64] : 7.0);
}

TEST(Card, OneSymbolThroughTwoFormalsIsNotReadLate) {
  // The load of a row feeds its store through another formal of the same symbol.
  const std::string f = "f32 [8,64]";
  Machine m(fmt::format(
      "sym x: inout {0}\nloc 0 \"a\" \"b\"\nkernel k(x: in {0}, y: out {0}) cores 4 {{ grid(c:4)\n core r in 0..8 by 2 "
      "on c\n"
      "buf a f32[2,64] x1\n ld a = x[r, 0..64]\n buf b f32[2,64] x1\n sfp b = a + 1.0\n st y[r, 0..64] = b }}\n"
      "call k(x, x)\ncall k(x, x)\n",
      f));
  const auto x = m.set("x", noise(1));
  m.run_every_way();
  const auto y = m.get("x");
  for (int64_t i = 0; i < 8 * 64; ++i) EXPECT_EQ(y[i], static_cast<float>(static_cast<float>(x[i] + 1) + 1));
}

TEST(Card, FormalsAreViewsOfTheirSymbol) {
  // y = x[:, 0:64] + x[:, 64:128], then the halves of y changed for each other.
  Machine m(R"(
sym x: in f32 [4,128]
sym y: out f32 [4,128]
sym t: temp f32 [4,128]
loc 0 "a" "b"
kernel add(a: in f32 [4,64] strides [128,1] of [4,128], b: in f32 [4,64] strides [128,1] offset 64 of [4,128], y: out f32 [4,64] strides [128,1] of [4,128]) cores 4 {
  grid(c:4)
    core r in 0..4 by 1 on c
    buf p f32[1,64] x1
    ld p = a[r, 0..64]
    buf q f32[1,64] x1
    ld q = b[r, 0..64]
    sfp p = p + q
    st y[r, 0..64] = p
}
kernel copy(a: in f32 [4,64] strides [128,1] of [4,128], y: out f32 [4,64] strides [128,1] offset 64 of [4,128]) cores 4 {
  grid(c:4)
    core r in 0..4 by 1 on c
    buf p f32[1,64] x1
    ld p = a[r, 0..64]
    st y[r, 0..64] = p
}
call add(x, x, t)
call copy(x, t)
call add(t, t, y)
call copy(t, y)
)");
  const auto x = m.set("x", [](int64_t i) { return static_cast<double>(i % 50); });
  m.run_every_way();
  const auto y = m.get("y");
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 64; ++c) {
      const double low = x[r * 128 + c], both = low + x[r * 128 + 64 + c];
      EXPECT_EQ(y[r * 128 + c], both + low);
      EXPECT_EQ(y[r * 128 + 64 + c], both);
    }
}

}  // namespace
}  // namespace spyre::card
