// Closed form of where an access can be: per dimension, cells that different cores and trips never share.
#pragma once

#include <set>
#include <vector>

#include "program/verify_context.h"
#include "program/verify_sticks.h"

namespace spyre::program::verifier {

/// What makes two instances of a step different: a coordinate of the grid, or the trip of a loop.
struct Variable {
  bool loop = false;
  Id id = none;  ///< grid dimension, or range
  auto operator<=>(const Variable&) const = default;
};

/// One dimension of an access: the boxes lie in [outer, outer + length), where `outer` depends on coordinates, trips
/// and scalars only; loops in `inner` cut that cell into parts that are apart from each other.
struct DimCells {
  bool known = false;
  Affine outer;
  int64_t length = 0;
  std::set<Variable> inner;
  bool inner_aligned = true;  ///< the parts begin at multiples of whole sticks (lane dimension)
  Interval hull;  ///< smallest and one past the largest index over all cores and trips, scalars' part of `outer` aside
};

struct AccessCells {
  const Site* site = nullptr;
  const MemRef* ref = nullptr;
  std::vector<DimCells> dims;    ///< by entry
  std::set<Variable> variables;  ///< all with more than one value and not fixed by a condition
  std::set<Variable> fixed;      ///< by `if coordinate == c`, `k.first`, `k.last`
};

/// The current nest of `context` must be the site's.
AccessCells cells_of(const Context& context, const Site& site, const StickShape& sticks);

/// Number of values of a variable.
int64_t count_of(const Context& context, Id nest, const Variable& v);

/// Variables v such that two instances of a and b that differ in v touch different sticks, whatever their other
/// variables. For a == b all variables count, else only those that both have in common (coordinates of one nest, common
/// loops).
std::set<Variable> apart(const Context& context, const AccessCells& a, const AccessCells& b, const StickShape& sticks);

/// True when no stick is touched by an instance of a and one of b.
bool hulls_apart(const AccessCells& a, const AccessCells& b, const StickShape& sticks);

/// One dimension from its first index and number of indices; `block` and `phase` as in StickShape.
DimCells dim_cells(const Context& context, const IntExpr& base, const IntExpr& extent, int64_t step, int64_t block);
/// The variables that a single dimension keeps apart.
std::set<Variable> apart_in(const Context& context, Id nest, const DimCells& a, const DimCells& b, bool same,
                            const std::set<Variable>& common, int64_t block, int64_t phase);

}  // namespace spyre::program::verifier
