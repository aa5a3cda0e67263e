// Affine: the canonical form of an IntExpr, over trips, sizes, coordinates and scalars; its value, its bounds, its
// dependences.
//
// A range's start is written out (lo + by x trip, or lo + by x coordinate), so that start(t) - start(c) of a range t in
// c becomes by x trip(t): what depends only on the place within a tile shows as such.
#pragma once

#include <cstdint>
#include <vector>

#include "program/tree.h"

namespace spyre::timing {

using program::Id;

enum class Leaf : uint8_t { trip, size, coordinate, scalar, opaque };

struct Term {
  Leaf kind = Leaf::trip;
  Id id = program::none;  ///< range, grid dimension, scalar, or number of the opaque node
  int64_t factor = 0;
};

/// constant + sum(factor x leaf); no leaf twice, no factor 0.
struct Affine {
  int64_t constant = 0;
  std::vector<Term> terms;
  bool is_constant() const { return terms.empty(); }
};

/// What the leaves stand for: of one core, at one point of its execution.
struct Values {
  std::vector<int64_t> trip, size;  ///< by range
  std::vector<int64_t> coordinate;  ///< by grid dimension of the nest
  std::vector<int64_t> scalar;      ///< by kernel scalar (f32 ones are 0)
};

/// Both ends included.
struct Interval {
  int64_t lo = 0, hi = 0;
  bool is_point() const { return lo == hi; }
};

/// Intervals of the trips and sizes of ranges; coordinates and scalars are known.
struct Bounds {
  std::vector<Interval> trip, size;
  std::vector<Interval> coordinate;
  const std::vector<int64_t>* scalar = nullptr;
};

/// All expressions of one kernel.
class Expressions {
 public:
  explicit Expressions(const program::Kernel& kernel) : kernel_(kernel) {}

  Affine of(const program::IntExpr& e);
  /// First index of a range in its current trip, or of a core range on its core.
  Affine start(Id range);
  /// hi - lo of a range (for a parent: its size).
  Affine extent(Id range);

  int64_t value(const Affine& a, const Values& v) const;
  Interval bounds(const Affine& a, const Bounds& b) const;

  /// Calls fn(term) for every leaf that is no opaque node, those inside opaque nodes too.
  template <typename Fn>
  void for_each_leaf(const Affine& a, Fn&& fn) const {
    for (const Term& t : a.terms) {
      if (t.kind == Leaf::opaque) {
        for_each_leaf(opaque_[t.id].a, fn);
        for_each_leaf(opaque_[t.id].b, fn);
      } else {
        fn(t);
      }
    }
  }

  static Affine difference(const Affine& a, const Affine& b) { return sum(a, b, -1); }

 private:
  struct Opaque {
    program::IntExpr::Op op;
    Affine a, b;
  };
  static Affine sum(const Affine& a, const Affine& b, int64_t factor);
  Affine opaque(program::IntExpr::Op op, Affine a, Affine b);
  static Affine leaf(Leaf kind, Id id, int64_t factor = 1) { return {0, {{kind, id, factor}}}; }

  const program::Kernel& kernel_;
  std::vector<Opaque> opaque_;
};

/// Rounds towards minus infinity; b > 0.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }
inline int64_t ceil_div(int64_t a, int64_t b) { return floor_div(a + b - 1, b); }

}  // namespace spyre::timing
