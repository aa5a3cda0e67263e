// Interval arithmetic over the terms of a size, saturating at the ends of int64, which stand for no bound.
#include "graph/size_range.h"

#include <algorithm>

#include "graph/size_terms.h"

namespace spyre::graph {
namespace {

int64_t add(int64_t a, int64_t b, int64_t unbounded) {
  if (a == unbounded || b == unbounded) return unbounded;
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? unbounded : r;
}

int64_t mul(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  const auto unbounded = [](int64_t x) { return x == INT64_MIN || x == INT64_MAX; };
  int64_t r;
  if (!unbounded(a) && !unbounded(b) && !__builtin_mul_overflow(a, b, &r)) return r;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

SizeRange product(const SizeRange& a, const SizeRange& b) {
  const int64_t corners[] = {mul(a.lo, b.lo), mul(a.lo, b.hi), mul(a.hi, b.lo), mul(a.hi, b.hi)};
  const auto [lo, hi] = std::minmax_element(std::begin(corners), std::end(corners));
  return {*lo, *hi};
}

int64_t divide_bound(int64_t a, int64_t b) {
  if (a == INT64_MIN || a == INT64_MAX) return a;
  const int64_t q = a / b;
  return a % b != 0 && a < 0 ? q - 1 : q;
}

SizeRange range_of(const SizeAtom& atom, std::span<const Symbol> symbols) {
  if (atom.op == SizeAtom::Op::symbol) {
    if (static_cast<size_t>(atom.symbol) >= symbols.size()) return {};
    const Symbol& s = symbols[static_cast<size_t>(atom.symbol)];
    return {s.lo, s.hi};
  }
  const SizeRange a = range_of(atom.a, symbols), b = range_of(atom.b, symbols);
  switch (atom.op) {
    case SizeAtom::Op::min:
      return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case SizeAtom::Op::max:
      return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    default:
      break;
  }
  if (b.lo < 1) return {};
  // Towards zero from either side, dividing by more gives less.
  return {divide_bound(a.lo, a.lo < 0 ? b.lo : b.hi), divide_bound(a.hi, a.hi < 0 ? b.hi : b.lo)};
}

}  // namespace

SizeRange range_of(const Size& size, std::span<const Symbol> symbols) {
  SizeTerms room;
  SizeRange sum{0, 0};
  for (const SizeTerm& term : size_terms(size, room)) {
    SizeRange r{term.coefficient, term.coefficient};
    for (const SizeAtom& atom : term.atoms) r = product(r, range_of(atom, symbols));
    sum = {add(sum.lo, r.lo, INT64_MIN), add(sum.hi, r.hi, INT64_MAX)};
  }
  return sum;
}

bool provably_at_most(const Size& a, const Size& b, std::span<const Symbol> symbols) {
  return range_of(b - a, symbols).lo >= 0;
}

}  // namespace spyre::graph
