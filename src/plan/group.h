// Grouping: which nodes share a kernel. Greedy, in the order of the graph.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "plan/memo.h"
#include "plan/uses.h"

namespace spyre::plan {

class Grouper {
 public:
  Grouper(const graph::Graph& graph, const Uses& uses, const std::vector<Home>& temps, Plan& plan, Pricer& pricer,
          const Options& options);

  /// Kernels in launch order, each with its nodes ascending. Leaves the homes of what stays inside of one `resident`.
  /// A kernel of several nodes has a legal candidate.
  std::vector<std::vector<Id>> run();

 private:
  bool join(Id node, size_t group);
  std::optional<size_t> absorb_a_source(size_t group);
  bool reads(size_t group, size_t source) const;
  bool may_wait(size_t source, size_t until) const;
  bool reads_what_it_replaces_elsewhere(std::span<const Id> nodes) const;
  bool shares_a_read(Id node, const std::vector<Id>& group) const;
  bool belongs_to(Id node, Form form, size_t group) const;
  bool multiplies_the_same(Id node, Id other) const;
  size_t earliest(Id node) const;
  void settle_all(std::span<const Id> nodes);

  const graph::Graph& graph_;
  const Uses& uses_;
  const std::vector<Home>& temps_;
  Plan& plan_;
  Pricer& pricer_;
  const Options& options_;
  std::mt19937_64 random_;
  std::vector<std::vector<Id>> groups_;
  std::vector<int> group_of_;  // per node
};

}  // namespace spyre::plan
