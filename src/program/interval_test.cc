#include "program/interval.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/affine.h"

namespace spyre::program {
namespace {

using Op = IntExpr::Op;
IntExpr number(int64_t v) { return IntExpr::of(v); }
IntExpr scalar(Id id) { return IntExpr::leaf(Op::scalar, id); }
IntExpr make(Op op, IntExpr a, IntExpr b) { return IntExpr::binary(op, std::move(a), std::move(b)); }

TEST(Interval, BoundsHoldEveryValueAndAreReached) {
  for (Op op : {Op::add, Op::sub, Op::mul, Op::min, Op::max}) {
    const Interval a{-3, 4}, b{-2, 5};
    const Interval r = evaluate(make(op, scalar(0), scalar(1)), {{}, {}, {}, {}, {a, b}});
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (int64_t x = a.lo; x <= a.hi; ++x)
      for (int64_t y = b.lo; y <= b.hi; ++y) {
        const int64_t v = op == Op::add   ? x + y
                          : op == Op::sub ? x - y
                          : op == Op::mul ? x * y
                          : op == Op::min ? std::min(x, y)
                                          : std::max(x, y);
        lo = std::min(lo, v);
        hi = std::max(hi, v);
      }
    EXPECT_EQ(r, (Interval{lo, hi}));
  }
}

TEST(Interval, DivisionRoundsDown) {
  EXPECT_EQ(floor_div(Interval{-7, 7}, 4), (Interval{-2, 1}));
  EXPECT_EQ(floor_mod(Interval{-3, -1}, 4), (Interval{1, 3}));
  EXPECT_EQ(floor_mod(Interval{-1, 1}, 4), (Interval{0, 3}));
  EXPECT_THROW(floor_div(Interval{0, 1}, 0), Error);
}

TEST(Interval, LargeValuesAreRefusedNotWrapped) {
  const LeafValues leaves{{}, {}, {}, {}, {Interval{0, value_limit}}};
  EXPECT_NO_THROW(evaluate(scalar(0), leaves));
  EXPECT_THROW(evaluate(make(Op::add, scalar(0), number(1)), leaves), Error);
  EXPECT_THROW(evaluate(make(Op::mul, scalar(0), scalar(0)), leaves), Error);
  EXPECT_THROW(evaluate(number(INT64_MIN), leaves), Error);
}

TEST(Interval, MalformedExpressionsAreRefused) {
  EXPECT_THROW(evaluate(scalar(3), {}), Error);
  EXPECT_THROW(evaluate(IntExpr{Op::add, 0, none, {number(1)}}, {}), Error);
  IntExpr deep = number(1);
  for (int i = 0; i < 40; ++i) deep = make(Op::add, deep, number(1));
  EXPECT_THROW(check_expression_size(deep), Error);
}

TEST(Affine, EqualValuesHaveEqualForms) {
  const IntExpr twice = make(Op::mul, number(2), make(Op::sub, scalar(0), scalar(1)));
  const IntExpr apart = make(Op::sub, make(Op::add, scalar(0), scalar(0)), make(Op::mul, scalar(1), number(2)));
  EXPECT_TRUE(Affine::of(twice).equals(Affine::of(apart)));
  EXPECT_FALSE(Affine::of(twice).equals(Affine::of(scalar(0))));
}

TEST(Affine, OtherOperationsAreAtoms) {
  const IntExpr least = make(Op::min, scalar(0), number(4));
  const Affine f = Affine::of(make(Op::add, least, number(3)));
  EXPECT_EQ(f.constant, 3);
  ASSERT_EQ(f.terms.size(), 1u);
  EXPECT_EQ(f.terms[0].atom, least);
  EXPECT_TRUE(f.minus(Affine::of(least)).is_constant());
  EXPECT_EQ(Affine::of(make(Op::div, number(-7), number(2))).constant, -4);
}

TEST(Affine, SubstitutionReplacesALeaf) {
  const Affine f = Affine::of(make(Op::add, make(Op::mul, scalar(0), number(3)), scalar(1)));
  const Affine g = f.substitute(Op::scalar, 0, Affine::of(make(Op::add, scalar(1), number(2))));
  EXPECT_EQ(g.constant, 6);
  EXPECT_EQ(g.coefficient(Op::scalar, 1), 4);
  EXPECT_EQ(g.coefficient(Op::scalar, 0), 0);
}

TEST(Affine, NestedProductsAreCheap) {
  IntExpr e = scalar(0);
  for (int i = 0; i < 30; ++i) e = make(Op::mul, e, number(1));
  EXPECT_TRUE(Affine::of(e).is_leaf(Op::scalar, 0));
}

}  // namespace
}  // namespace spyre::program
