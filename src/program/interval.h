// Interval: the values an integer expression can take, by interval arithmetic that never overflows.
#pragma once

#include <cstdint>
#include <vector>

#include "program/int_expr.h"

namespace spyre::program {

/// Every integer expression of a verified program stays within +-value_limit at every node, so that sums and products
/// of two values by small numbers fit in 64 bits.
constexpr int64_t value_limit = int64_t{1} << 53;

/// All integers v with lo <= v <= hi; never empty.
struct Interval {
  int64_t lo = 0, hi = 0;
  bool operator==(const Interval&) const = default;
  static Interval point(int64_t v) { return {v, v}; }
  bool is_point() const { return lo == hi; }
};

/// Exact bounds of the operation over independent operands. Throw Error(program) when a bound leaves +-value_limit.
Interval operator+(Interval a, Interval b);
Interval operator-(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
Interval min(Interval a, Interval b);
Interval max(Interval a, Interval b);
/// Rounds towards minus infinity; throws Error(program) unless by >= 1.
Interval floor_div(Interval a, int64_t by);
Interval floor_mod(Interval a, int64_t by);
/// Smallest interval that holds both.
Interval hull(Interval a, Interval b);

/// Rounds towards minus infinity; b >= 1.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }
/// Rounds up; a >= 0, b >= 1.
inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
/// a x b, or the largest int64 when that is less; a, b >= 0.
int64_t saturating_mul(int64_t a, int64_t b);

/// What the leaves of an expression can be, by id.
struct LeafValues {
  std::vector<Interval> start, size, trip;  ///< by range
  std::vector<Interval> coordinate;         ///< by grid dimension of the nest
  std::vector<Interval> scalar;             ///< by kernel scalar
};

/// Throws Error(program) for a node with the wrong number of arguments, an id outside `leaves`, a division or modulo by
/// anything but a positive constant, and values that leave +-value_limit.
Interval evaluate(const IntExpr& e, const LeafValues& leaves);

/// Throws Error(program) when the expression nests deeper than 32 levels or has more than 256 nodes.
void check_expression_size(const IntExpr& e);

}  // namespace spyre::program
