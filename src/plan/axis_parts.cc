#include "plan/axis_parts.h"

#include <algorithm>
#include <cstdlib>

#include "plan/axes.h"

namespace spyre::plan {

using graph::Graph;
using graph::Ref;

namespace {

void expand_terms(const Atoms& atoms, Term t, std::vector<Term>& out) {
  t.atom = atoms.find(t.atom);
  if (!atoms.is_split(t.atom)) {
    out.push_back(t);
    return;
  }
  const int64_t inner = atoms.size(atoms.inner(t.atom));
  expand_terms(atoms, {atoms.outer(t.atom), t.stride * inner}, out);
  expand_terms(atoms, {atoms.inner(t.atom), t.stride}, out);
}

}  // namespace

void expand(const Atoms& atoms, Strided& s) {
  std::vector<Term> terms;
  for (const Term& t : s.terms) expand_terms(atoms, t, terms);
  s.terms = std::move(terms);
}

Strided strided(const Atoms& atoms, graph::Id value, int64_t offset, const std::vector<std::vector<int>>& dims,
                const std::vector<int64_t>& strides) {
  Strided s{value, offset, {}};
  for (size_t d = 0; d < dims.size(); ++d) {
    int64_t inner = strides[d];
    std::vector<Term> terms;
    const auto list = atoms.expand(dims[d]);
    for (size_t i = list.size(); i-- > 0; inner *= atoms.size(list[i])) terms.push_back({list[i], inner});
    s.terms.insert(s.terms.end(), terms.rbegin(), terms.rend());
  }
  return s;
}

bool goes_through(const Home& home) { return home.kind == Home::Kind::folded || home.kind == Home::Kind::replaces; }

namespace {

/// One dimension of a dense value whose elements are somewhere else.
struct Through {
  int64_t size, stride;  ///< in the value's own storage
  int64_t there;         ///< stride where the elements are
};

/// The dimensions of a dense value, outermost of its storage first, merged where the elements follow each other there.
std::vector<Through> dims_through(const graph::Value& value, const Ref& through) {
  std::vector<Through> dims;
  for (size_t d = 0; d < value.sizes.size(); ++d)
    if (number(value.sizes[d]) != 1)
      dims.push_back({number(value.sizes[d]), number(value.strides[d]), number(through.strides[d])});
  std::sort(dims.begin(), dims.end(), [](const Through& a, const Through& b) { return a.stride > b.stride; });
  for (size_t d = 0; d + 1 < dims.size();) {
    if (dims[d].there != dims[d + 1].size * dims[d + 1].there) {
      ++d;
      continue;
    }
    dims[d + 1].size *= dims[d].size;
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d));
  }
  return dims;
}

/// Takes a reference of `value` to where its elements are; splits parts that cross a dimension. False when that isn't a
/// strided reference.
bool go_through(Atoms& atoms, Strided& s, const graph::Value& value, const Ref& through) {
  const auto dims = dims_through(value, through);
  for (bool again = true; again;) {
    again = false;
    expand(atoms, s);
    int64_t low = s.offset;  // the first element that is touched
    for (const Term& t : s.terms)
      if (t.stride < 0 && atoms.size(t.atom) > 1) low += t.stride * (atoms.size(t.atom) - 1);
    if (low < 0) return false;
    std::vector<int64_t> first(dims.size()), used(dims.size());
    int64_t offset = number(through.offset), rest = low;
    for (size_t d = 0; d < dims.size(); ++d) {
      first[d] = used[d] = rest / dims[d].stride;
      rest %= dims[d].stride;
      if (first[d] >= dims[d].size) return false;
      offset += first[d] * dims[d].there;
    }
    std::vector<Term> terms;
    for (const Term& t : s.terms) {
      const int64_t step = std::abs(t.stride), size = atoms.size(t.atom);
      if (step == 0 || size <= 1) {
        terms.push_back({t.atom, 0});
        continue;
      }
      size_t d = 0;
      while (d < dims.size() && dims[d].stride > step) ++d;
      if (d == dims.size() || step % dims[d].stride != 0) return false;
      const int64_t by = step / dims[d].stride;
      if (used[d] + by * (size - 1) >= dims[d].size) {
        // Longer than the dimension: whole rounds of it are a part of their own.
        if (dims[d].size % by != 0) return false;
        const int64_t inner = dims[d].size / by;
        if (inner <= 1 || inner >= size || size % inner != 0) return false;
        atoms.split(t.atom, inner);
        again = true;
        break;
      }
      used[d] += by * (size - 1);
      const int64_t there = by * dims[d].there;
      terms.push_back({t.atom, t.stride < 0 ? -there : there});
      if (t.stride < 0) offset += there * (size - 1);
    }
    if (again) continue;
    s.terms = std::move(terms);
    s.offset = offset;
    s.value = through.value;
  }
  return true;
}

}  // namespace

bool through_folds(Atoms& atoms, Strided& s, const Graph& g, const std::vector<Home>& homes) {
  while (goes_through(homes[s.value]))
    if (!go_through(atoms, s, g.values[s.value], homes[s.value].through)) return false;
  return true;
}

}  // namespace spyre::plan
