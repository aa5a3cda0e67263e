#include "program/interval.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace spyre::program {
namespace {

constexpr int depth_limit = 32;
constexpr int node_limit = 256;

int64_t limited(int64_t v, bool overflow) {
  if (overflow || v > value_limit || v < -value_limit)
    fail(Fault::program, "an integer expression leaves +-2^53; use smaller bounds");
  return v;
}
int64_t sum(int64_t a, int64_t b) {
  int64_t v = 0;
  const bool overflow = __builtin_add_overflow(a, b, &v);
  return limited(v, overflow);
}
int64_t product(int64_t a, int64_t b) {
  int64_t v = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &v);
  return limited(v, overflow);
}
void check_divisor(int64_t by) {
  if (by < 1)
    fail(Fault::program, "an integer expression divides by {}; div and mod take a constant of at least 1", by);
}
void count(const IntExpr& e, int depth, int& nodes) {
  if (depth > depth_limit || ++nodes > node_limit)
    fail(Fault::program, "an integer expression is larger than {} levels or {} nodes", depth_limit, node_limit);
  if (e.op <= IntExpr::Op::scalar && !e.args.empty())
    fail(Fault::program, "a leaf of an integer expression has arguments");
  for (const IntExpr& a : e.args) count(a, depth + 1, nodes);
}
Interval leaf(const std::vector<Interval>& values, Id id, const char* what) {
  if (id < 0 || id >= static_cast<Id>(values.size()))
    fail(Fault::program, "an integer expression names {} {}, which does not exist", what, id);
  return values[id];
}

}  // namespace

Interval operator+(Interval a, Interval b) { return {sum(a.lo, b.lo), sum(a.hi, b.hi)}; }
Interval operator-(Interval a, Interval b) { return a + Interval{-b.hi, -b.lo}; }
Interval operator*(Interval a, Interval b) {
  const int64_t p[] = {product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo), product(a.hi, b.hi)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}
Interval min(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)}; }
Interval max(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)}; }
Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval floor_div(Interval a, int64_t by) {
  check_divisor(by);
  return {floor_div(a.lo, by), floor_div(a.hi, by)};
}

Interval floor_mod(Interval a, int64_t by) {
  check_divisor(by);
  if (floor_div(a.lo, by) == floor_div(a.hi, by)) return {floor_mod(a.lo, by), floor_mod(a.hi, by)};
  return {0, by - 1};
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t v = 0;
  return __builtin_mul_overflow(a, b, &v) ? std::numeric_limits<int64_t>::max() : v;
}

Interval evaluate(const IntExpr& e, const LeafValues& leaves) {
  using Op = IntExpr::Op;
  switch (e.op) {
    case Op::constant:
      return Interval::point(limited(e.value, false));
    case Op::start:
      return leaf(leaves.start, e.id, "range");
    case Op::size:
      return leaf(leaves.size, e.id, "range");
    case Op::trip:
      return leaf(leaves.trip, e.id, "range");
    case Op::coordinate:
      return leaf(leaves.coordinate, e.id, "grid dimension");
    case Op::scalar:
      return leaf(leaves.scalar, e.id, "scalar");
    default:
      break;
  }
  if (e.op > Op::mod) fail(Fault::program, "an integer expression has an unknown operation");
  if (e.args.size() != 2) fail(Fault::program, "an integer expression has {} arguments instead of 2", e.args.size());
  const Interval a = evaluate(e.args[0], leaves);
  if (e.op == Op::div || e.op == Op::mod) {
    if (!e.args[1].is_constant())
      fail(Fault::program, "an integer expression divides by something that is no constant");
    limited(e.args[1].value, false);
    return e.op == Op::div ? floor_div(a, e.args[1].value) : floor_mod(a, e.args[1].value);
  }
  const Interval b = evaluate(e.args[1], leaves);
  switch (e.op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::min:
      return min(a, b);
    default:
      return max(a, b);
  }
}

void check_expression_size(const IntExpr& e) {
  int nodes = 0;
  count(e, 1, nodes);
}

}  // namespace spyre::program
