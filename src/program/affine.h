// Affine: the normal form of an integer expression, constant + sum of coefficient x atom.
//
// Atoms are leaves, or whole sub-expressions that are not affine (min, max, div, mod, products): two forms of equal
// value by their text are equal, and differences cancel.
#pragma once

#include <cstdint>
#include <vector>

#include "program/int_expr.h"
#include "program/interval.h"

namespace spyre::program {

struct Affine {
  struct Term {
    IntExpr atom;
    int64_t coefficient = 0;  ///< never 0
  };
  int64_t constant = 0;
  std::vector<Term> terms;  ///< distinct atoms, in order of appearance

  /// The expression must have passed evaluate(). Throws Error(program) when a coefficient leaves +-value_limit or there
  /// are more than 64 atoms.
  static Affine of(const IntExpr& e);
  static Affine of(int64_t constant) { return {constant, {}}; }

  /// this + factor x other; throws like of().
  Affine plus(const Affine& other, int64_t factor = 1) const;
  Affine minus(const Affine& other) const { return plus(other, -1); }
  bool is_constant() const { return terms.empty(); }
  /// True if the form is exactly that leaf.
  bool is_leaf(IntExpr::Op op, Id id) const;
  /// 0 when the leaf is not among the atoms.
  int64_t coefficient(IntExpr::Op op, Id id) const;
  /// With the leaf replaced by `by`.
  Affine substitute(IntExpr::Op op, Id id, const Affine& by) const;
  /// Equal for all values of the atoms.
  bool equals(const Affine& other) const;
  /// Bounds with the atoms taken as independent of each other; throws Error(program) like evaluate().
  Interval bounds(const LeafValues& leaves) const;

 private:
  void add(const IntExpr& atom, int64_t coefficient);
  void add_scaled(const IntExpr& e, int64_t factor);
};

/// Calls fn(leaf) for every leaf of the expression that is no constant.
template <typename Fn>
void for_each_leaf(const IntExpr& e, Fn&& fn) {
  if (e.op != IntExpr::Op::constant && e.op <= IntExpr::Op::scalar) fn(e);
  for (const IntExpr& a : e.args) for_each_leaf(a, fn);
}

}  // namespace spyre::program
