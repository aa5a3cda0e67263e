#include "program/affine.h"

#include <algorithm>

#include "base/error.h"

namespace spyre::program {
namespace {

constexpr size_t atom_limit = 64;

int64_t checked_product(int64_t a, int64_t b) { return (Interval::point(a) * Interval::point(b)).lo; }
bool has_leaf(const IntExpr& e) {
  bool found = false;
  for_each_leaf(e, [&](const IntExpr&) { found = true; });
  return found;
}
int64_t checked_sum(int64_t a, int64_t b) { return (Interval::point(a) + Interval::point(b)).lo; }

}  // namespace

void Affine::add(const IntExpr& atom, int64_t coefficient) {
  if (coefficient == 0) return;
  auto it = std::find_if(terms.begin(), terms.end(), [&](const Term& t) { return t.atom == atom; });
  if (it == terms.end()) {
    if (terms.size() == atom_limit) fail(Fault::program, "an integer expression has more than {} terms", atom_limit);
    terms.push_back({atom, coefficient});
    return;
  }
  it->coefficient = checked_sum(it->coefficient, coefficient);
  if (it->coefficient == 0) terms.erase(it);
}

void Affine::add_scaled(const IntExpr& e, int64_t factor) {
  using Op = IntExpr::Op;
  switch (e.op) {
    case Op::constant:
      constant = checked_sum(constant, checked_product(factor, e.value));
      return;
    case Op::add:
    case Op::sub:
      add_scaled(e.args[0], factor);
      add_scaled(e.args[1], e.op == Op::add ? factor : -factor);
      return;
    case Op::mul:
      for (int side = 0; side < 2; ++side) {
        if (has_leaf(e.args[side])) continue;
        add_scaled(e.args[1 - side], checked_product(factor, evaluate(e.args[side], {}).lo));
        return;
      }
      break;
    case Op::div:
      if (e.args[1].is_constant(1)) return add_scaled(e.args[0], factor);
      break;
    default:
      break;
  }
  if (!has_leaf(e))  // min, max, div, mod of numbers
    constant = checked_sum(constant, checked_product(factor, evaluate(e, {}).lo));
  else
    add(e.op <= Op::scalar ? IntExpr::leaf(e.op, e.id) : e, factor);
}

Affine Affine::of(const IntExpr& e) {
  Affine a;
  a.add_scaled(e, 1);
  return a;
}

Affine Affine::plus(const Affine& other, int64_t factor) const {
  Affine a = *this;
  a.constant = checked_sum(a.constant, checked_product(factor, other.constant));
  for (const Term& t : other.terms) a.add(t.atom, checked_product(factor, t.coefficient));
  return a;
}

bool Affine::is_leaf(IntExpr::Op op, Id id) const {
  return constant == 0 && terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atom.op == op &&
         terms[0].atom.id == id;
}

int64_t Affine::coefficient(IntExpr::Op op, Id id) const {
  for (const Term& t : terms)
    if (t.atom.op == op && t.atom.id == id) return t.coefficient;
  return 0;
}

Affine Affine::substitute(IntExpr::Op op, Id id, const Affine& by) const {
  const int64_t factor = coefficient(op, id);
  if (factor == 0) return *this;
  Affine a;
  a.constant = constant;
  for (const Term& t : terms)
    if (t.atom.op != op || t.atom.id != id) a.terms.push_back(t);
  return a.plus(by, factor);
}

bool Affine::equals(const Affine& other) const {
  const Affine difference = minus(other);
  return difference.is_constant() && difference.constant == 0;
}

Interval Affine::bounds(const LeafValues& leaves) const {
  Interval sum = Interval::point(constant);
  for (const Term& t : terms) sum = sum + Interval::point(t.coefficient) * evaluate(t.atom, leaves);
  return sum;
}

}  // namespace spyre::program
