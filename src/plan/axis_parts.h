// Parts of dimensions while common axes are looked for, and references by parts.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace spyre::plan {

/// Parts of dimensions that are still being refined. A part can be split into an outer and an inner one, or be found to
/// be another one.
class Atoms {
 public:
  int add(int64_t size) {
    atoms_.push_back({size, static_cast<int>(atoms_.size()), -1, -1});
    return static_cast<int>(atoms_.size()) - 1;
  }
  int find(int a) const {
    while (atoms_[a].same != a) a = atoms_[a].same;
    return a;
  }
  int64_t size(int a) const { return atoms_[find(a)].size; }
  void unite(int a, int b) { atoms_[find(a)].same = find(b); }
  /// The inner part gets this size, which divides that of `a`.
  void split(int a, int64_t inner) {
    a = find(a);
    const int64_t outer = atoms_[a].size / inner;
    const int o = add(outer), i = add(inner);
    atoms_[a].outer = o;
    atoms_[a].inner = i;
  }
  bool is_split(int a) const { return atoms_[find(a)].outer >= 0; }
  int outer(int a) const { return atoms_[find(a)].outer; }
  int inner(int a) const { return atoms_[find(a)].inner; }

  /// The parts of today, outermost first.
  std::vector<int> expand(const std::vector<int>& list) const {
    std::vector<int> out;
    for (int a : list) expand(a, out);
    return out;
  }

 private:
  void expand(int a, std::vector<int>& out) const {
    a = find(a);
    if (atoms_[a].outer < 0) {
      out.push_back(a);
      return;
    }
    expand(atoms_[a].outer, out);
    expand(atoms_[a].inner, out);
  }
  struct Atom {
    int64_t size;
    int same, outer, inner;
  };
  std::vector<Atom> atoms_;
};

struct Term {
  int atom;
  int64_t stride;
};

/// A reference by parts: storage element offset + sum(stride x index).
struct Strided {
  graph::Id value = graph::none;
  int64_t offset = 0;
  std::vector<Term> terms;
};

/// Replaces parts that were split by what they were split into.
void expand(const Atoms& atoms, Strided& s);
/// The reference of dimensions that each are a list of parts.
Strided strided(const Atoms& atoms, graph::Id value, int64_t offset, const std::vector<std::vector<int>>& dims,
                const std::vector<int64_t>& strides);
/// Values that are read where their elements are: folded ones, and those that replace an input.
bool goes_through(const Home& home);
/// Takes a reference to where its elements are; splits parts that cross a dimension of a copy. False when that isn't a
/// strided reference.
bool through_folds(Atoms& atoms, Strided& s, const graph::Graph& g, const std::vector<Home>& homes);

}  // namespace spyre::plan
