// Reduce and Scan: a monoid's state per line of the space, fed in row-major order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/strip.h"
#include "program/vector_rules.h"

namespace spyre::graph {

namespace {

/// Error of a sum of n f32 terms in whatever order, in units of f32's rounding times the sum of their magnitudes.
/// Roundings go either way, but those of equal terms in a row (at most `run` of them) go the same way.
double sum_units(double n, double run = 1) { return 1 + std::sqrt(n * run) / 4; }

/// What is known of a line so far. Names follow sums; the other monoids say what they keep in them.
struct State {
  double v = 0;        ///< sum, product, extreme, mean, or logsumexp's maximum
  double e = 0;        ///< error of v
  double size = 0;     ///< sum of the terms' magnitudes; welford's m2; logsumexp's sum
  double squares = 0;  ///< welford: sum of squared errors; arg: whether the index is in doubt
  double count = 0;
  int64_t index = -1;
  int64_t integer = 0;  ///< exact sum or product of i32
  double last = 0;      ///< sum: the latest term, ...
  double run = 0;       ///< ... how often it came in a row, ...
  double longest = 1;   ///< ... and the most of that
};

class Fold {
 public:
  Fold(const Run& run, Monoid monoid, Reg type, bool trap, bool last_of_equals)
      : run_(run), monoid_(monoid), type_(type), trap_(trap), last_of_equals_(last_of_equals) {
    const bool real = type == Reg::f32;
    switch (monoid) {
      case Monoid::prod:
        start_.v = 1, start_.integer = 1;
        break;
      case Monoid::all:
        start_.v = 1;
        break;
      case Monoid::max:
      case Monoid::argmax:
        start_.v = real ? -infinity : INT32_MIN;
        break;
      case Monoid::min:
      case Monoid::argmin:
        start_.v = real ? infinity : INT32_MAX;
        break;
      case Monoid::logsumexp:
        start_.v = -infinity;
        break;
      default:
        break;
    }
  }

  const State& start() const { return start_; }

  void add(State& s, double x, double e, int64_t index) const {
    switch (monoid_) {
      case Monoid::sum:
        if (type_ == Reg::i32) s.integer += static_cast<int64_t>(x);
        s.v += x;
        s.e += e;
        s.size += std::abs(x);
        s.run = s.run > 0 && x == s.last ? s.run + 1 : 1;
        s.last = x;
        s.longest = std::max(s.longest, s.run);
        break;
      case Monoid::prod:
        product(s, x, e);
        break;
      case Monoid::max:
      case Monoid::min:
        if (!std::isnan(s.v) && (std::isnan(x) || (monoid_ == Monoid::max ? x > s.v : x < s.v))) s.v = x;
        s.e = std::max(s.e, e);
        break;
      case Monoid::any:
      case Monoid::all: {
        const double decides = monoid_ == Monoid::any ? 1 : 0;
        if (x == decides) s.v = decides;
        if (x == decides && e == 0) s.size = 1;  // whatever the others are
        s.e = std::max(s.e, e);
        break;
      }
      case Monoid::argmax:
      case Monoid::argmin:
        best(s, x, e, index);
        break;
      case Monoid::welford: {
        const double d = x - s.v, r = e + f32_unit * std::abs(x);
        s.v += d / (s.count + 1);
        s.size += d * (x - s.v);
        s.e += r;
        s.squares += r * r;
        break;
      }
      case Monoid::logsumexp: {
        const double m = std::isnan(x) || std::isnan(s.v) ? std::numeric_limits<double>::quiet_NaN() : std::max(s.v, x);
        if (std::isnan(m))
          s.size = m;
        else if (m != -infinity)
          s.size = s.size * std::exp(s.v - m) + (x == m ? 1 : std::exp(x - m));
        s.v = m;
        s.e = std::max(s.e, e);
        break;
      }
    }
    s.count += 1;
  }

  /// Result r of a line.
  void result(const State& s, int r, double& v, double& e) const {
    v = s.v;
    e = s.e;
    const double units = f32_unit * sum_units(s.count, s.longest);
    switch (monoid_) {
      case Monoid::sum:
        if (type_ == Reg::f32)
          e = s.e + (s.count > 1 ? units * s.size : 0);
        else
          v = narrow(s.integer);
        break;
      case Monoid::prod:
        if (type_ != Reg::f32) v = static_cast<double>(s.integer);
        break;
      case Monoid::any:
      case Monoid::all:
        if (s.size == 1) e = 0;
        break;
      case Monoid::argmax:
      case Monoid::argmin:
        if (r == 1) {
          v = static_cast<double>(s.index);
          e = s.squares != 0 ? infinity : 0;
        }
        break;
      case Monoid::welford: {
        const double mean_error = s.count > 0 ? s.e * sum_units(s.count) / s.count : 0;
        if (r == 0) {
          e = mean_error;
        } else if (r == 1) {
          v = s.size;
          e = 2 * std::sqrt(s.size * s.squares) + s.squares + s.count * mean_error * mean_error + units * 4 * s.size;
        } else {
          v = s.count;
          e = 0;
        }
        break;
      }
      case Monoid::logsumexp:
        if (r == 1) {
          v = s.size;
          // Every term moves with its own error and the maximum's; their exponentials are functions of 8 units. Whoever
          // sums in one pass takes what there is to each new maximum by another one: about log(count) of them.
          // All terms have one sign, so that each addition may round the same way: half a unit a term.
          e = s.size * (std::expm1(2 * s.e) +
                        (s.count > 1 ? units + f32_unit * (8 * (1 + std::log2(s.count)) + s.count / 2) : 0));
          if (std::isnan(e)) e = infinity;
        }
        break;
      default:
        break;
    }
    if (!std::isfinite(v)) e = 0;
  }

 private:
  double narrow(int64_t exact) const {
    const auto wrapped = static_cast<int32_t>(exact);
    if (trap_ && wrapped != exact)
      run_.fail_here(
          fmt::format("{} of int64 values gives {}, which leaves int32", program::monoid_name(monoid_), exact));
    return wrapped;
  }

  void product(State& s, double x, double e) const {
    if (type_ == Reg::i32) {
      s.integer = static_cast<int64_t>(narrow(s.integer * static_cast<int64_t>(x)));
      return;
    }
    const double p = s.v * x;
    s.e = (s.e == 0 ? 0 : s.e * (std::abs(x) + e)) + (e == 0 ? 0 : std::abs(s.v) * e) +
          (s.count > 0 ? f32_unit * std::abs(p) : 0);
    s.v = p;
  }

  void best(State& s, double x, double e, int64_t index) const {
    const double lead = monoid_ == Monoid::argmax ? x - s.v : s.v - x;
    const bool nan = std::isnan(x), had_nan = std::isnan(s.v);
    const bool take = s.index < 0 || (nan && (!had_nan || last_of_equals_)) ||
                      (!nan && !had_nan && (lead > 0 || (last_of_equals_ && x == s.v)));
    const bool close = s.index >= 0 && !nan && !had_nan && s.e + e > 0 && !(std::abs(lead) > 2 * (s.e + e));
    if (close)
      s.squares = 1;
    else if (take)
      s.squares = 0;
    if (take) s.v = x, s.index = index;
    s.e = close || !take ? std::max(s.e, close ? e : 0) : e;
  }

  const Run& run_;
  Monoid monoid_;
  Reg type_;
  bool trap_, last_of_equals_;
  State start_;
};

std::vector<int64_t> strides_of(const Run& run, Id value) {
  return numbers(run.graph.values[static_cast<size_t>(value)].strides);
}

}  // namespace

void interpret(Run& run, const Reduce& n, const Node& node) {
  const Fold fold(run, n.monoid, n.value.type, n.trap, false);
  const std::vector<int64_t> space = numbers(n.space);
  // Lines are numbered row-major over the kept dimensions, points of a line over the reduced ones.
  std::vector<int64_t> line_strides(space.size()), index_strides(space.size());
  std::vector<bool> reduced(space.size());
  for (int32_t d : n.dims) reduced[static_cast<size_t>(d)] = true;
  int64_t lines = 1, points = 1;
  for (size_t d = space.size(); d-- > 0;) {
    (reduced[d] ? index_strides : line_strides)[d] = reduced[d] ? points : lines;
    (reduced[d] ? points : lines) *= space[d];
  }
  if (points > INT32_MAX && states_of(n.monoid) == 2) run.fail_here("an index of a reduction leaves int32");
  const Walk line_walk(n.space, line_strides, 0), index_walk(n.space, index_strides, 0);
  std::vector<State> states(static_cast<size_t>(lines), fold.start());
  Evaluator evaluator(run, n.space, n.loads, {&n.value});
  int64_t line[strip_points], index[strip_points];
  for (int64_t first = 0; first < evaluator.points(); first += strip_points) {
    const int64_t m = std::min(strip_points, evaluator.points() - first);
    evaluator.strip(first, m);
    line_walk.places(first, m, line);
    index_walk.places(first, m, index);
    const Lanes& x = evaluator.output(0);
    for (int64_t p = 0; p < m; ++p) fold.add(states[static_cast<size_t>(line[p])], x.v[p], x.e[p], index[p]);
  }
  Lanes out;
  for (size_t r = 0; r < node.results.size(); ++r) {
    const Walk walk(result_sizes(n, static_cast<int>(r)), strides_of(run, node.results[r]), 0);
    for (int64_t first = 0; first < lines; first += strip_points) {
      const int64_t m = std::min(strip_points, lines - first);
      for (int64_t p = 0; p < m; ++p)
        fold.result(states[static_cast<size_t>(first + p)], static_cast<int>(r), out.v[p], out.e[p]);
      walk.places(first, m, line);
      write_lanes(run, node.results[r], line, m, out);
    }
  }
}

void interpret(Run& run, const Scan& n, const Node& node) {
  const Fold fold(run, n.monoid, n.value.type, n.trap, true);
  const std::vector<int64_t> space = numbers(n.space);
  std::vector<int64_t> line_strides(space.size()), index_strides(space.size());
  int64_t lines = 1;
  for (size_t d = space.size(); d-- > 0;) {
    if (d == static_cast<size_t>(n.dim)) continue;
    line_strides[d] = lines;
    lines *= space[d];
  }
  index_strides[static_cast<size_t>(n.dim)] = 1;
  const Walk line_walk(n.space, line_strides, 0), index_walk(n.space, index_strides, 0);
  std::vector<Walk> result_walks;
  for (Id r : node.results) result_walks.emplace_back(n.space, strides_of(run, r), 0);
  std::vector<State> states(static_cast<size_t>(lines), fold.start());
  std::vector<Lanes> out(node.results.size());
  Evaluator evaluator(run, n.space, n.loads, {&n.value});
  int64_t line[strip_points], index[strip_points];
  for (int64_t first = 0; first < evaluator.points(); first += strip_points) {
    const int64_t m = std::min(strip_points, evaluator.points() - first);
    evaluator.strip(first, m);
    line_walk.places(first, m, line);
    index_walk.places(first, m, index);
    const Lanes& x = evaluator.output(0);
    for (int64_t p = 0; p < m; ++p) {
      State& s = states[static_cast<size_t>(line[p])];
      fold.add(s, x.v[p], x.e[p], index[p]);
      for (size_t r = 0; r < out.size(); ++r) fold.result(s, static_cast<int>(r), out[r].v[p], out[r].e[p]);
    }
    for (size_t r = 0; r < out.size(); ++r) {
      result_walks[r].places(first, m, line);
      write_lanes(run, node.results[r], line, m, out[r]);
    }
  }
}

}  // namespace spyre::graph
