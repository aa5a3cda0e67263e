// For tests: small graphs built by hand, of random shapes and strides.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace spyre::lower {

using Random = std::mt19937_64;

inline int64_t pick(Random& random, int64_t lo, int64_t hi) {
  return std::uniform_int_distribution<int64_t>(lo, hi)(random);
}
template <typename T>
const T& one_of(Random& random, const std::vector<T>& list) {
  return list[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(list.size()) - 1))];
}
inline std::vector<graph::Size> as_sizes(const std::vector<int64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

/// Row-major strides of these sizes with the dimensions in a random order.
inline std::vector<int64_t> dense_strides(Random& random, const std::vector<int64_t>& sizes, bool permute) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (permute) std::shuffle(order.begin(), order.end(), random);
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(1, sizes[order[i]]);
  }
  return strides;
}

struct GraphMaker {
  graph::Graph graph;

  graph::Ref input(graph::HostType type, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    graph::Value value;
    value.name = "x" + std::to_string(graph.values.size());
    value.type = type;
    value.sizes = as_sizes(sizes);
    value.strides = as_sizes(strides);
    graph.inputs.push_back(static_cast<graph::Id>(graph.values.size()));
    graph.values.push_back(std::move(value));
    return graph::whole(graph, graph.inputs.back());
  }
  /// An input of a random dense layout, or a slice of a larger one, or a broadcast one, of these sizes.
  graph::Ref random_input(Random& random, graph::HostType type, const std::vector<int64_t>& sizes) {
    std::vector<int64_t> base = sizes, offset(sizes.size(), 0), step(sizes.size(), 1);
    for (size_t d = 0; d < sizes.size(); ++d) {
      const int64_t what = pick(random, 0, 9);
      if (what == 0) base[d] = 1, step[d] = 0;
      if (what == 1) offset[d] = pick(random, 0, 5), base[d] = sizes[d] + offset[d] + pick(random, 0, 3);
      if (what == 2) step[d] = 2, base[d] = 2 * sizes[d];
    }
    const std::vector<int64_t> strides = dense_strides(random, base, pick(random, 0, 2) == 0);
    graph::Ref ref = input(type, base, strides);
    int64_t first = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      first += offset[d] * strides[d];
      ref.sizes[d] = sizes[d];
      ref.strides[d] = strides[d] * step[d];
    }
    ref.offset = std::count(sizes.begin(), sizes.end(), 0) > 0 ? 0 : first;
    return ref;
  }
  /// A node with results of these types, dense in these strides (empty: contiguous).
  std::vector<graph::Ref> add(graph::Kind kind, const std::vector<graph::HostType>& types,
                              const std::vector<int64_t>& strides = {}) {
    const auto id = static_cast<graph::Id>(graph.nodes.size());
    graph::Node node;
    node.loc = {"aten.test", "test.py:" + std::to_string(id)};
    std::vector<graph::Ref> refs;
    for (size_t r = 0; r < types.size(); ++r) {
      graph::Value value;
      value.name = "v" + std::to_string(graph.values.size());
      value.type = types[r];
      value.sizes = graph::result_sizes(kind, static_cast<int>(r));
      value.strides = strides.empty() ? graph::contiguous(value.sizes) : as_sizes(strides);
      value.node = id;
      value.result = static_cast<int32_t>(r);
      node.results.push_back(static_cast<graph::Id>(graph.values.size()));
      graph.values.push_back(std::move(value));
    }
    node.kind = std::move(kind);
    for (const graph::Id v : node.results) refs.push_back(graph::whole(graph, v));
    graph.nodes.push_back(std::move(node));
    return refs;
  }
  void output(const graph::Ref& ref) { graph.outputs.push_back(ref); }
};

}  // namespace spyre::lower
