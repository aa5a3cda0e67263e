#include "timing/kernel_model.h"

#include <algorithm>
#include <map>

#include "program/conventions.h"

namespace spyre::timing {

using program::none;
using CompareOp = program::Compare::Op;

bool CompareModel::holds(int64_t d) const {
  switch (op) {
    case CompareOp::eq:
      return d == 0;
    case CompareOp::ne:
      return d != 0;
    case CompareOp::lt:
      return d < 0;
    case CompareOp::le:
      return d <= 0;
    case CompareOp::gt:
      return d > 0;
    case CompareOp::ge:
      return d >= 0;
  }
  return false;
}

int CompareModel::decide(const Interval& d) const {
  const bool lo = holds(d.lo), hi = holds(d.hi);
  if (op == CompareOp::eq || op == CompareOp::ne) {
    if (d.is_point()) return lo;
    if (d.lo > 0 || d.hi < 0) return op == CompareOp::ne;
    return -1;
  }
  return lo == hi ? lo : -1;
}

Values KernelModel::values(int nest, int core) const {
  Values v;
  v.trip.assign(kernel_.ranges.size(), 0);
  v.size.assign(kernel_.ranges.size(), 0);
  v.scalar = scalars_;
  const auto& grid = kernel_.nests[nest].grid;
  v.coordinate.resize(grid.size());
  for (size_t g = grid.size(); g-- > 0;) {
    v.coordinate[g] = core % grid[g].size;
    core /= grid[g].size;
  }
  return v;
}

Values KernelModel::last_values(int nest, int core) const {
  Values v = values(nest, core);
  for (const Id r : core_ranges_[nest]) enter_core_range(r, v);
  for (const LoopModel& loop : loops_) {
    if (loop.nest != nest) continue;
    v.trip[loop.range] = std::max<int64_t>(trips(loop, v) - 1, 0);
    v.size[loop.range] = kernel_.ranges[loop.range].by;
  }
  return v;
}

void KernelModel::enter_core_range(Id range, Values& v) const {
  const program::Range& r = kernel_.ranges[range];
  v.size[range] = std::clamp<int64_t>(expressions_.value(extents_[range], v) - r.by * v.coordinate[r.grid], 0, r.by);
}

bool KernelModel::slice(Id range, int core, int64_t& start, int64_t& size) const {
  const int nest = range_nest_[range];
  if (nest == none || core >= kernel_.nests[nest].cores()) return false;
  Values v = values(nest, core);
  for (const Id r : core_ranges_[nest]) enter_core_range(r, v);
  start = expressions_.value(starts_[range], v);
  size = v.size[range];
  if (!kernel_.ranges[range].is_core) {
    size = expressions_.value(extents_[range], v);
  }
  return true;
}

int64_t KernelModel::trips(const LoopModel& loop, const Values& v) const {
  const program::Range& r = kernel_.ranges[loop.range];
  return program::trips_of(r, kernel_, expressions_.value(loop.extent, v));
}

void KernelModel::set_inner(const LoopModel& loop, Bounds& b) const {
  for (const Id range : loop.inner) {
    const program::Range& r = kernel_.ranges[range];
    const Interval extent = expressions_.bounds(extents_[range], b);
    if (r.is_core) {
      const Interval c = b.coordinate[r.grid];
      b.size[range] = {std::clamp<int64_t>(extent.lo - r.by * c.hi, 0, r.by),
                       std::clamp<int64_t>(extent.hi - r.by * c.lo, 0, r.by)};
      continue;
    }
    b.trip[range] = {0, std::max<int64_t>(program::trips_of(r, kernel_, extent.hi) - 1, 0)};
    const bool even = extent.is_point() && extent.lo > 0 && extent.lo % r.by == 0 && !r.uniform;
    b.size[range] = {even ? r.by : 0, std::clamp<int64_t>(extent.hi, 0, r.by)};
  }
}

bool KernelModel::same(const LoopModel& loop, const Bounds& b) const {
  for (const int i : loop.sensitive) {
    const Sensitive& item = items_[i];
    if (item.kind == Sensitive::Kind::value) {
      if (!expressions_.bounds(item.a, b).is_point()) return false;
    } else if (item.kind == Sensitive::Kind::truth) {
      if (item.compare.decide(expressions_.bounds(item.a, b)) < 0) return false;
    } else {
      const Interval base = expressions_.bounds(item.a, b), extent = expressions_.bounds(item.b, b);
      const bool inside = base.lo >= 0 && base.hi + item.step * (std::max<int64_t>(extent.hi, 1) - 1) < item.limit;
      const bool outside = base.lo >= item.limit || base.hi + item.step * (std::max<int64_t>(extent.hi, 1) - 1) < 0;
      if (!inside && !outside && !(base.is_point() && extent.is_point())) return false;
    }
  }
  return true;
}

int64_t KernelModel::same_until(const LoopModel& loop, const Values& v, int64_t t0, int64_t last) const {
  if (last < t0) return t0 - 1;
  if (loop.sensitive.empty()) return last;
  Bounds b;
  for (const int64_t t : v.trip) b.trip.push_back({t, t});
  for (const int64_t s : v.size) b.size.push_back({s, s});
  for (const int64_t c : v.coordinate) b.coordinate.push_back({c, c});
  b.scalar = &scalars_;
  b.size[loop.range] = {kernel_.ranges[loop.range].by, kernel_.ranges[loop.range].by};
  const auto holds = [&](int64_t end) {
    b.trip[loop.range] = {t0, end};
    set_inner(loop, b);
    return same(loop, b);
  };
  if (holds(last)) return last;
  int64_t good = t0 - 1, bad = last;  // what holds for a window holds for its parts
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

std::vector<KernelModel::Class> KernelModel::classes() const {
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<Class> classes;
  for (int core = 0; core < kernel_.cores; ++core) {
    std::vector<int64_t> signature;
    bool any = false;
    for (size_t n = 0; n < kernel_.nests.size(); ++n) {
      const bool in = core < kernel_.nests[n].cores();
      signature.push_back(in);
      if (!in) continue;
      any = true;
      Values v = values(static_cast<int>(n), core);
      for (const Id r : core_ranges_[n]) {
        enter_core_range(r, v);
        signature.push_back(v.size[r]);
      }
      for (size_t g = 0; g < v.coordinate.size(); ++g) {
        if (by_coordinate_[n][g]) signature.push_back(v.coordinate[g]);
      }
    }
    if (!any) continue;
    const auto [at, added] = known.try_emplace(signature, classes.size());
    if (added) classes.push_back({core, 0});
    ++classes[at->second].count;
  }
  return classes;
}

std::vector<std::vector<double>> KernelModel::copies(int core) const {
  std::vector<std::vector<double>> all;
  for (size_t n = 0; n < kernel_.nests.size(); ++n) {
    const program::Nest& nest = kernel_.nests[n];
    all.emplace_back();
    for (const program::GridDim& g : nest.grid) all.back().push_back(g.size);
    if (core >= nest.cores()) continue;
    std::vector<double> most(nest.grid.size(), 0);
    Values mine = values(static_cast<int>(n), core);
    for (const Id r : core_ranges_[n]) {
      enter_core_range(r, mine);
      const int64_t size = mine.size[r];
      if (size == 0) continue;
      const Id g = kernel_.ranges[r].grid;
      Values v = mine;
      int64_t sum = 0;
      for (int32_t c = 0; c < nest.grid[g].size; ++c) {
        v.coordinate[g] = c;
        enter_core_range(r, v);
        sum += v.size[r];
      }
      most[g] = std::max(most[g], static_cast<double>(sum) / static_cast<double>(size));
    }
    for (size_t g = 0; g < most.size(); ++g) {
      if (most[g] > 0) all.back()[g] = most[g];
    }
  }
  return all;
}

double KernelModel::share_of_cores(int nest, const NodeModel& branch) const {
  const int cores = kernel_.nests[nest].cores();
  int holding = 0;
  for (int core = 0; core < cores; ++core) {
    const Values v = values(nest, core);
    holding += std::all_of(branch.condition.begin(), branch.condition.end(),
                           [&](const CompareModel& c) { return c.holds(expressions_.value(c.difference, v)); });
  }
  return static_cast<double>(std::max(holding, 1)) / cores;
}

}  // namespace spyre::timing
