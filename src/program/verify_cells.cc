#include "program/verify_cells.h"

#include <algorithm>

namespace spyre::program::verifier {
namespace {

using Op = IntExpr::Op;

bool is_variable(const IntExpr& e) { return e.op == Op::coordinate || e.op == Op::trip; }
Variable variable_of(const IntExpr& e) { return {e.op == Op::trip, e.id}; }
int64_t round_down(int64_t v, int64_t block) { return floor_div(v, block) * block; }
int64_t round_up(int64_t v, int64_t block) { return -round_down(-v, block); }

}  // namespace

int64_t count_of(const Context& c, Id nest, const Variable& v) {
  return v.loop ? c.ranges[v.id].max_trips : c.kernel.nests[nest].grid[v.id].size;
}

DimCells dim_cells(const Context& c, const IntExpr& base, const IntExpr& extent, int64_t step, int64_t block) {
  DimCells d;
  const Affine first = Affine::of(base), size = Affine::of(extent);
  const Id nonempty = range_of_size(extent);
  const Interval most = c.bounds(size);
  d.length = most.hi == 0 ? 0 : step * (most.hi - 1) + 1;
  d.outer = c.expand(first);
  // A walk along a range stays in the range, which stays in the one it divides: go out to the last.
  Id r = nonempty;
  if (step == 1 && r != none) {
    const Affine shift = first.minus(Affine::of(IntExpr::leaf(Op::start, r)));
    if (shift.coefficient(Op::start, r) == 0 && shift.is_constant()) {
      std::set<Variable> inner;
      bool aligned = true;
      while (c.kernel.ranges[r].parent != none) {
        const Range& range = c.kernel.ranges[r];
        const bool one = range.is_core ? c.leaves.coordinate[range.grid].is_point() : c.ranges[r].max_trips <= 1;
        if (!one) {
          inner.insert(range.is_core ? Variable{false, range.grid} : Variable{true, r});
          aligned = aligned && range.by % block == 0;
        }
        r = range.parent;
      }
      const Range& root = c.kernel.ranges[r];
      const IntExpr which = root.is_core ? IntExpr::leaf(Op::coordinate, root.grid) : IntExpr::leaf(Op::trip, r);
      d.outer = c.expand(c.ranges[r].lo.plus(shift).plus(Affine::of(which), root.by));
      d.length = std::min(root.by, c.leaves.size[r].hi);
      d.inner = std::move(inner);
      d.inner_aligned = aligned;
    }
  }
  d.known = std::all_of(d.outer.terms.begin(), d.outer.terms.end(),
                        [](const Affine::Term& t) { return is_variable(t.atom) || t.atom.op == Op::scalar; });
  Affine begin = first, end = first.plus(size, step);
  for (const auto& t : c.expand(first).terms)  // equal on both sides of a comparison, or not compared at all
    if (t.atom.op == Op::scalar) {
      begin = begin.plus(Affine::of(t.atom), -t.coefficient);
      end = end.plus(Affine::of(t.atom), -t.coefficient);
    }
  d.hull = {c.bounds(begin, nonempty).lo,
            std::max(c.bounds(begin, nonempty).lo, c.bounds(end, nonempty).hi - step + 1)};
  return d;
}

AccessCells cells_of(const Context& c, const Site& site, const StickShape& sticks) {
  AccessCells cells;
  cells.site = &site;
  cells.ref = memory_of(*site.step);
  for (size_t e = 0; e < cells.ref->entries.size(); ++e) {
    const Entry& entry = cells.ref->entries[e];
    const int64_t block = sticks.known && static_cast<int>(e) == sticks.lane_dim ? sticks.block : 1;
    if (entry.kind == Entry::Kind::affine) {
      cells.dims.push_back(dim_cells(c, entry.base, entry.extent, entry.step, block));
    } else {  // anywhere in its bounds
      IntExpr size = IntExpr::binary(Op::sub, entry.hi, entry.lo);
      const Affine length = Affine::of(size);
      for (const auto& t : length.terms)
        if (length.is_leaf(Op::size, t.atom.id)) size = IntExpr::leaf(Op::size, t.atom.id);
      size = IntExpr::binary(Op::max, IntExpr::of(0), size);
      if (size.args[1].op == Op::size) size = IntExpr(size.args[1]);
      cells.dims.push_back(dim_cells(c, entry.lo, size, 1, block));
    }
  }
  auto add = [&](const Variable& v) {
    if (count_of(c, site.nest, v) > 1) cells.variables.insert(v);
  };
  for (size_t g = 0; g < c.kernel.nests[site.nest].grid.size(); ++g) add({false, static_cast<Id>(g)});
  for (Id r : site.ranges)
    if (!c.kernel.ranges[r].is_core) add({true, r});
  for (const Condition* condition : site.conditions) {
    for (const Compare& compare : *condition) {
      const Affine difference = Affine::of(compare.a).minus(Affine::of(compare.b));
      if (compare.op == Compare::Op::eq && difference.terms.size() == 1 && is_variable(difference.terms[0].atom))
        cells.fixed.insert(variable_of(difference.terms[0].atom));
      for (Id r : site.ranges) {  // k.last: start + by >= hi
        const Range& range = c.kernel.ranges[r];
        if (range.is_core || range.uniform) continue;
        const Affine last = Affine::of(IntExpr::leaf(Op::start, r)).plus(Affine::of(range.by)).minus(c.ranges[r].hi);
        if ((compare.op == Compare::Op::ge && difference.equals(last)) ||
            (compare.op == Compare::Op::le && last.plus(difference).equals(Affine::of(0))))
          cells.fixed.insert({true, r});
      }
    }
  }
  for (const Variable& v : cells.fixed) cells.variables.erase(v);
  return cells;
}

std::set<Variable> apart_in(const Context& c, Id nest, const DimCells& a, const DimCells& b, bool same,
                            const std::set<Variable>& common, int64_t block, int64_t phase) {
  std::set<Variable> found;
  if (!a.known || !b.known) return found;
  struct Term {
    int64_t factor, count;
    Variable v;
  };
  std::vector<Term> terms;
  int64_t begin[2], end[2];
  const DimCells* sides[2] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    const DimCells& own = *sides[i];
    const DimCells& other = *sides[1 - i];
    begin[i] = own.outer.constant + phase;
    end[i] = begin[i] + own.length;
    for (const auto& t : own.outer.terms) {
      const int64_t elsewhere = other.outer.coefficient(t.atom.op, t.atom.id);
      if (t.atom.op == Op::scalar) {
        if (elsewhere != t.coefficient || t.coefficient % block != 0) return {};
        continue;
      }
      const Variable v = variable_of(t.atom);
      const int64_t count = count_of(c, nest, v);
      if (count <= 1) continue;
      if (elsewhere == t.coefficient && common.count(v)) {
        if (i == 0) terms.push_back({std::abs(t.coefficient), count, v});
      } else {  // somewhere along its values: a longer cell
        if (v.loop == false && !common.count(v)) return {};
        (t.coefficient > 0 ? end[i] : begin[i]) += t.coefficient * (count - 1);
      }
    }
  }
  const int64_t low = round_down(std::min(begin[0], begin[1]), block), high = round_up(std::max(end[0], end[1]), block);
  int64_t length = high - low;
  std::sort(terms.begin(), terms.end(), [](const Term& x, const Term& y) { return x.factor < y.factor; });
  for (const Term& t : terms) {
    if (t.factor < length || t.factor % block != 0) return {};
    found.insert(t.v);
    if (t.factor > value_limit / t.count) return {};
    length += t.factor * (t.count - 1);
  }
  const bool begins_aligned = (a.outer.constant + phase) % block == 0;
  if (same && a.inner_aligned && begins_aligned) found.insert(a.inner.begin(), a.inner.end());
  return found;
}

std::set<Variable> apart(const Context& c, const AccessCells& a, const AccessCells& b, const StickShape& sticks) {
  std::set<Variable> found;
  if (!sticks.known) return found;
  const bool same = &a == &b;
  if (!same && a.site->nest != b.site->nest) {  // coordinates mean the same only in equal grids
    const auto &ga = c.kernel.nests[a.site->nest].grid, &gb = c.kernel.nests[b.site->nest].grid;
    if (!std::equal(ga.begin(), ga.end(), gb.begin(), gb.end(),
                    [](const GridDim& x, const GridDim& y) { return x.size == y.size; }))
      return found;
  }
  std::set<Variable> common = a.variables;
  common.insert(a.fixed.begin(), a.fixed.end());
  if (!same) {
    std::set<Variable> others = b.variables;
    others.insert(b.fixed.begin(), b.fixed.end());
    std::erase_if(common, [&](const Variable& v) { return !others.count(v); });
  }
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const bool lane = static_cast<int>(d) == sticks.lane_dim;
    found.merge(apart_in(c, a.site->nest, a.dims[d], b.dims[d], same, common, lane ? sticks.block : 1,
                         lane ? sticks.phase : 0));
  }
  return found;
}

bool hulls_apart(const AccessCells& a, const AccessCells& b, const StickShape& sticks) {
  if (!sticks.known) return false;
  for (size_t d = 0; d < a.dims.size(); ++d) {
    const bool lane = static_cast<int>(d) == sticks.lane_dim;
    auto scalars = [](const DimCells& x) {
      Affine s;
      for (const auto& t : x.outer.terms)
        if (t.atom.op == Op::scalar) s.terms.push_back(t);
      return s;
    };
    const Affine sa = scalars(a.dims[d]), sb = scalars(b.dims[d]);
    if (!sa.equals(sb)) continue;
    const int64_t block = lane ? sticks.block : 1, phase = lane ? sticks.phase : 0;
    if (lane &&
        std::any_of(sa.terms.begin(), sa.terms.end(), [&](const auto& t) { return t.coefficient % block != 0; }))
      continue;
    const Interval x = a.dims[d].hull, y = b.dims[d].hull;
    auto down = [&](int64_t v) { return round_down(v + phase, block); };
    auto up = [&](int64_t v) { return round_up(v + phase, block); };
    if (x.hi <= x.lo || y.hi <= y.lo || up(x.hi) <= down(y.lo) || up(y.hi) <= down(x.lo)) return true;
  }
  return false;
}

}  // namespace spyre::program::verifier
