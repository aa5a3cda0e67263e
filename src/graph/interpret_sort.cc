// Sort: every line along the dimension, stable, NaN above all numbers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/strip.h"

namespace spyre::graph {

void interpret(Run& run, const Sort& n, const Node& node) {
  const std::vector<int64_t> sizes = numbers(n.from.sizes), strides = numbers(n.from.strides);
  const auto dim = static_cast<size_t>(n.dim);
  const int64_t length = sizes[dim], kept = n.k ? *n.k->constant() : length;
  std::vector<Size> line_sizes = n.from.sizes;
  line_sizes[dim] = 1;
  const Walk lines(line_sizes, strides, *n.from.offset.constant());
  std::vector<Walk> results;
  std::vector<int64_t> result_steps;
  for (Id r : node.results) {
    const std::vector<int64_t> to = numbers(run.graph.values[static_cast<size_t>(r)].strides);
    results.emplace_back(line_sizes, to, 0);
    result_steps.push_back(to[dim]);
  }
  std::vector<double> value(static_cast<size_t>(length)), error(value.size());
  std::vector<int64_t> order(value.size());
  std::vector<bool> unsure(value.size());
  Lanes lanes;
  int64_t places[strip_points], start = 0;
  for (int64_t line = 0; line < lines.points() && length > 0; ++line) {
    lines.places(line, 1, &start);
    for (int64_t first = 0; first < length; first += strip_points) {
      const int64_t m = std::min(strip_points, length - first);
      for (int64_t p = 0; p < m; ++p) places[p] = start + (first + p) * strides[dim];
      read_lanes(run, n.from.value, places, m, lanes);
      std::copy_n(lanes.v, m, value.begin() + first);
      std::copy_n(lanes.e, m, error.begin() + first);
    }
    std::iota(order.begin(), order.end(), int64_t{0});
    const auto less = [&](int64_t a, int64_t b) {
      const double x = value[static_cast<size_t>(n.descending ? b : a)],
                   y = value[static_cast<size_t>(n.descending ? a : b)];
      return std::isnan(y) ? !std::isnan(x) : x < y;
    };
    std::stable_sort(order.begin(), order.end(), less);
    // A sorted value moves by at most the largest error of its line; an index is in doubt where neighbours may change
    // places.
    const double worst = *std::max_element(error.begin(), error.end());
    std::fill(unsure.begin(), unsure.end(), false);
    for (size_t p = 0; worst > 0 && p + 1 < order.size(); ++p) {
      const double x = value[static_cast<size_t>(order[p])], y = value[static_cast<size_t>(order[p + 1])];
      if (std::abs(x - y) <= 4 * worst) unsure[p] = unsure[p + 1] = true;
    }
    for (size_t r = 0; r < results.size(); ++r) {
      results[r].places(line, 1, &start);
      for (int64_t first = 0; first < kept; first += strip_points) {
        const int64_t m = std::min(strip_points, kept - first);
        for (int64_t p = 0; p < m; ++p) {
          const auto at = static_cast<size_t>(first + p);
          places[p] = start + (first + p) * result_steps[r];
          lanes.v[p] = r == 0 ? value[static_cast<size_t>(order[at])] : static_cast<double>(order[at]);
          lanes.e[p] = r == 0 ? worst : unsure[at] ? std::numeric_limits<double>::infinity() : 0;
        }
        write_lanes(run, node.results[r], places, m, lanes);
      }
    }
  }
}

}  // namespace spyre::graph
