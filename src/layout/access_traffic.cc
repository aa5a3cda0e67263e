// What a box costs and spans, without walking it: device_extent and traffic.
#include <algorithm>
#include <numeric>

#include "layout/walk_detail.h"

namespace spyre::layout {

namespace {

constexpr int64_t strip_limit = 4096;  // indices of an uneven dimension looked at one by one
constexpr int64_t count_limit = 512;   // runs counted rather than estimated
constexpr int64_t period_limit = 128;  // rows until the position in the stick repeats

// One box dimension by itself: device elements relative to the box's first one.
struct Reach {
  int64_t size = 0;
  std::vector<Strip> strips;
  bool even() const { return strips.size() == 1; }
  int64_t step() const { return strips[0].device_step; }
  bool by_sticks(int64_t lanes) const {
    return std::all_of(strips.begin(), strips.end(), [&](const Strip& s) {
      return s.device_element % lanes == 0 && (s.count == 1 || s.device_step % lanes == 0);
    });
  }
};

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// Numbers of a set of sticks: first, first + step, ... or, when `listed`, just these.
struct Sticks {
  int64_t count = 1, step = 0, span = 0, least_gap = 0;
  bool even = true;
};

Sticks sticks_of(const Reach& reach, int64_t lane, int64_t lanes) {
  std::vector<int64_t> list;
  for (const Strip& s : reach.strips) {
    const int64_t at = lane + s.device_element;
    if (reach.even() && s.count > 1 && s.device_step % lanes == 0) {
      const int64_t step = std::abs(s.device_step / lanes);
      return step == 0 ? Sticks{} : Sticks{s.count, step, step * (s.count - 1), step, true};
    }
    const int64_t first = floor_div(at, lanes), last = floor_div(at + (s.count - 1) * s.device_step, lanes);
    if (std::abs(s.device_step) <= lanes || s.count == 1) {
      const int64_t low = std::min(first, last), high = std::max(first, last);
      if (reach.even()) return {high - low + 1, 1, high - low, 1, true};
      for (int64_t i = low; i <= high; ++i) list.push_back(i);
    } else if (reach.even() && s.count > strip_limit) {
      const int64_t step = std::abs(s.device_step) / lanes;  // each element in its own stick, gaps step or step + 1
      return {s.count, step, std::abs(last - first), step, false};
    } else {
      for (int64_t i = 0; i < s.count; ++i) list.push_back(floor_div(at + i * s.device_step, lanes));
    }
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  Sticks out{static_cast<int64_t>(list.size()), 0, list.back() - list.front(), INT64_MAX, true};
  for (size_t i = 1; i < list.size(); ++i) {
    const int64_t gap = list[i] - list[i - 1];
    out.even = out.even && (out.step == 0 || gap == out.step);
    out.step = gap;
    out.least_gap = std::min(out.least_gap, gap);
  }
  if (list.size() == 1) out = Sticks{};
  return out;
}

int64_t runs_of(const Reach& row, int64_t lane, int64_t lanes) {
  int64_t runs = 0;
  for (const Strip& s : row.strips) {
    if (s.device_step != 1) {
      runs += s.count;
    } else {
      const int64_t at = lane + s.device_element;
      runs += floor_div(at + s.count - 1, lanes) - floor_div(at, lanes) + 1;
    }
  }
  return runs;
}

// Distinct sums of one member of each set.
int64_t distinct(std::vector<Sticks> sets, bool& exact) {
  std::sort(sets.begin(), sets.end(), [](const Sticks& a, const Sticks& b) { return a.least_gap < b.least_gap; });
  int64_t count = 1, span = 0, grain = 0;  // grain > 0: the sums so far are 0, grain, ..., span
  for (const Sticks& s : sets) {
    if (s.count == 1) continue;
    if (span == 0) {
      count = s.count;
      grain = s.even ? s.step : 0;
    } else if (s.least_gap > span) {
      count *= s.count;
      grain = grain > 0 && s.even && s.step == span + grain ? grain : 0;
    } else if (grain > 0 && s.even && s.step % grain == 0) {
      count = (span + s.span) / grain + 1;
    } else {
      exact = false;
      count = std::min(count * s.count, span + s.span + 1);
      grain = 0;
    }
    span += s.span;
  }
  return count;
}

}  // namespace

std::pair<int64_t, int64_t> Access::device_extent(const Box& box) const {
  detail::check_box(view_, box);
  int64_t low = view_.offset;
  for (size_t d = 0; d < box.size.size(); ++d) {
    if (box.size[d] == 0) return {0, 0};
    low += view_.strides[d] * box.start[d];
  }
  const int64_t base = detail::place(digits_, low);
  int64_t least = base, greatest = base, high = low;
  for (size_t d = 0; d < box.size.size(); ++d) {
    const int64_t n = box.size[d], by = box.step.empty() ? 1 : box.step[d];
    if (n == 1) continue;
    high += view_.strides[d] * by * (n - 1);
    if (!separable_) continue;
    if (even_[d]) {
      greatest += even_step_[d] * by * (n - 1);
    } else if (n <= strip_limit) {
      std::vector<Strip> strips;
      detail::append_strips(digits_, low, view_.strides[d] * by, n, 0, base, strips);
      int64_t lo = 0, hi = 0;
      for (const Strip& s : strips) {
        const int64_t end = s.device_element + (s.count - 1) * s.device_step;
        lo = std::min({lo, s.device_element, end});
        hi = std::max({hi, s.device_element, end});
      }
      least += lo;
      greatest += hi;
    } else {
      const auto [lo, hi] = detail::bounds(digits_, low, low + view_.strides[d] * by * (n - 1));
      least += lo - base;
      greatest += hi - base;
    }
  }
  const auto [lo, hi] = detail::bounds(digits_, low, high);
  if (!separable_) return {lo, hi + 1};
  return {std::max(least, lo), std::min(greatest, hi) + 1};
}

Access::Traffic Access::traffic(const Box& box) const {
  detail::check_box(view_, box);
  const int64_t lanes = base::elements_per_stick(geometry_.format);
  const size_t rank = box.size.size();
  int64_t storage = view_.offset, numel = 1;
  for (size_t d = 0; d < rank; ++d) {
    if (box.size[d] == 0) return {0, 0, true};
    storage += view_.strides[d] * box.start[d];
    numel *= box.size[d];
  }
  const int64_t base = detail::place(digits_, storage);
  const int64_t row = rank == 0 ? 1 : box.size.back();
  const int64_t rows = numel / row;

  // Each dimension by itself; neighbours that move as one are one.
  std::vector<Reach> outer;
  Reach last{1, {{0, 0, 1, 1}}};
  bool known = separable_;
  for (size_t d = rank; known && d-- > 0;) {
    const int64_t n = box.size[d], by = box.step.empty() ? 1 : box.step[d];
    if (n == 1) continue;
    Reach reach{n, {}};
    if (even_[d]) {
      reach.strips.push_back({0, 0, n, even_step_[d] * by});
    } else {
      known = n <= strip_limit || (view_.strides[d] * by == 1 && n <= strip_limit * lanes);
      if (known) detail::append_strips(digits_, storage, view_.strides[d] * by, n, 0, base, reach.strips);
    }
    if (!known) break;
    if (d + 1 == rank) {
      last = std::move(reach);
    } else if (!outer.empty() && outer.back().even() && reach.even() &&
               reach.step() == outer.back().step() * outer.back().size) {
      outer.back().size *= n;
      outer.back().strips[0].count *= n;
    } else {
      outer.push_back(std::move(reach));
    }
  }

  auto by_counting = [&] {
    std::vector<int64_t> sticks;
    Traffic t;
    for_each_run(box, [&](const Run& r) {
      sticks.push_back(r.device_element / lanes);
      ++t.runs;
    });
    std::sort(sticks.begin(), sticks.end());
    t.sticks = std::unique(sticks.begin(), sticks.end()) - sticks.begin();
    return t;
  };
  auto span_sticks = [&] {
    const auto [lo, hi] = device_extent(box);
    return (hi - 1) / lanes - lo / lanes + 1;
  };

  if (!known) {
    // A row in a run meets at most one more stick per wrap of a digit than its length asks for.
    int64_t row_runs = row;
    if (sticks_along_last() && (box.step.empty() || box.step.back() == 1)) {
      int64_t shortest = lanes;
      for (const Digit& d : digits_) shortest = std::min(shortest, std::max<int64_t>(d.mod1 * d.div1, 1));
      row_runs = std::min(row, 2 * ((row - 1) / shortest + 2));
    }
    if (rows * row_runs <= 4 * count_limit) return by_counting();
    return {std::min(rows * row_runs, span_sticks()), rows * row_runs, false};
  }

  const int64_t lane = base % lanes;
  size_t within = last.by_sticks(lanes) ? 0 : 1;
  for (const Reach& r : outer) within += r.by_sticks(lanes) ? 0 : 1;
  Traffic t;
  if (within <= 1) {
    std::vector<Sticks> sets{sticks_of(last, lane, lanes)};
    for (const Reach& r : outer) sets.push_back(sticks_of(r, r.by_sticks(lanes) ? 0 : lane, lanes));
    t.sticks = distinct(std::move(sets), t.exact);
    t.runs = rows * runs_of(last, lane, lanes);
    return t;
  }
  if (numel <= count_limit || rows * (row / lanes + 1) <= count_limit / 2) return by_counting();

  // Rows that start anywhere in a stick (1-D layouts). One even dimension of them: the position repeats.
  t.exact = false;
  if (last.even() && last.step() != 1) {
    t.runs = numel;
  } else {
    int64_t most = 0;
    for (const Strip& s : last.strips)
      most += s.device_step == 1 ? (s.count - 1) / lanes + (s.count > 1 ? 2 : 1) : s.count;
    t.runs = rows * most;
    if (outer.size() == 1 && outer[0].even() && last.even()) {
      const int64_t period = lanes / std::gcd(lanes, outer[0].step());
      const int64_t turns = outer[0].size / period, rest = outer[0].size % period;
      if (period <= period_limit) {
        t.runs = 0;
        for (int64_t i = 0; i < period; ++i) {
          const int64_t at = (lane + i * outer[0].step()) % lanes;
          t.runs += runs_of(last, at, lanes) * (turns + (i < rest ? 1 : 0));
        }
        if (outer[0].step() - last.size >= lanes) {  // no two rows meet in a stick
          t.sticks = t.runs;
          t.exact = true;
          return t;
        }
      }
    }
  }
  t.sticks = std::min(t.runs, span_sticks());
  if (last.even() && last.step() == 1 && outer.size() == 1 && outer[0].even() && outer[0].step() == last.size) {
    t.exact = true;  // the rows follow each other without a gap
  }
  return t;
}

}  // namespace spyre::layout
