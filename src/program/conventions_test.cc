#include "program/conventions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/program.h"

namespace spyre::program {
namespace {

using IOp = IntExpr::Op;

/// The dimensions that `ld t = ACCESS` walks, for a tile of a shape; h by 1 and m by 64 are core ranges, k a loop
/// by 16.
std::vector<int> dimensions(const std::string& shape, const std::string& access) {
  const Program p = assemble(
      "kernel t(x: in f32 [8,256,256], v: in f32 [256], w: in f32 [9,9,9,9], ids: in i32 [64]) cores 4 { grid(a:2, "
      "b:2) {"
      " core h in 0..2 by 1 on a core m in 0..256 by 128 on b for k in m by 16 { buf ix i32[64] buf one i32[1] buf t "
      "f32" +
      shape + " ld t = " + access + " } } }");
  const Kernel& kernel = p.kernels[0];
  const auto& body = std::get<For>(kernel.nests[0].body[2].node).body;
  const auto& load = std::get<Load>(std::get<Step>(body[3].node).op);
  return tile_dimensions(load.from, load.to, kernel);
}

using Dims = std::vector<int>;

TEST(TileDimensions, MatchEntriesInOrder) {
  EXPECT_EQ(dimensions("[4,16,64]", "x[0..4, k, 0..64]"), (Dims{0, 1, 2}));
  EXPECT_EQ(dimensions("[1,16,64]", "x[h, k, 0..64]"), (Dims{0, 1, 2}));
}

TEST(TileDimensions, DropPointsFromTheLeftWhenThereAreTooManyEntries) {
  EXPECT_EQ(dimensions("[16,64]", "x[h, k, 0..64]"), (Dims{-1, 0, 1}));
  EXPECT_EQ(dimensions("[16,64]", "x[h div 2, k, 0..64]"), (Dims{-1, 0, 1}));
  EXPECT_EQ(dimensions("[4,16]", "x[0..4, 3, k]"), (Dims{0, -1, 1}));
  EXPECT_EQ(dimensions("[16,9]", "w[h, 2*h - 1, k, 0..9]"), (Dims{-1, -1, 0, 1}));
  EXPECT_EQ(dimensions("[16,64]", "x[one in 0..8 trap, k, 0..64]"), (Dims{-1, 0, 1}));
  EXPECT_EQ(dimensions("[16,64]", "x[ix[k.trip] in 0..8 trap, k, 0..64]"), (Dims{-1, 0, 1}));
  EXPECT_EQ(dimensions("[64,64]", "x[h, ix in 0..256 trap, 0..64]"), (Dims{-1, 0, 1}));
}

TEST(TileDimensions, FewerEntriesWalkTheLastDimensions) {
  EXPECT_EQ(dimensions("[1,16]", "v[k]"), (Dims{1}));
  EXPECT_EQ(dimensions("[1,1,16]", "v[k]"), (Dims{2}));
}

TEST(TileDimensions, RefuseWhatCanNotBeMatched) {
  EXPECT_THROW(dimensions("[2,16]", "v[k]"), Error);
  EXPECT_THROW(dimensions("[16,64]", "x[0..4, k, 0..64]"), Error);
  EXPECT_THROW(dimensions("[64]", "x[ix in 0..8 skip, k, 0..64]"), Error);
}

TEST(ConstantValue, DivisionAndRemainderRoundDown) {
  auto value = [](IOp op, int64_t a, int64_t b) {
    return constant_value(IntExpr::binary(op, IntExpr::of(a), IntExpr::of(b)));
  };
  EXPECT_EQ(value(IOp::div, -1, 4), -1);
  EXPECT_EQ(value(IOp::mod, -1, 4), 3);
  EXPECT_EQ(value(IOp::div, -4, 4), -1);
  EXPECT_EQ(value(IOp::mod, -4, 4), 0);
  EXPECT_EQ(value(IOp::div, 7, 4), 1);
  EXPECT_EQ(value(IOp::mod, 7, 4), 3);
  EXPECT_EQ(value(IOp::div, 7, 0), std::nullopt);
  EXPECT_EQ(value(IOp::mul, INT64_MAX, 2), std::nullopt);
}

TEST(Names, AreIdentifiersThatNoStatementOrOperatorUses) {
  for (const char* good : {"x", "_1", "x2", "max", "sum", "out", "first", "iota_x", "T"})
    EXPECT_TRUE(is_name(good)) << good;
  for (const char* bad : {"", "_", "2x", "a b", "a-b", "for", "st", "iota", "iota0", "iota12", "inf", "\xc3\xa4"}) {
    EXPECT_FALSE(is_name(bad)) << bad;
  }
}

}  // namespace
}  // namespace spyre::program
