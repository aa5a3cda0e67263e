#include "plan/group.h"

#include <algorithm>

#include "plan/axes.h"

namespace spyre::plan {

namespace {

using graph::Ref;

size_t at(Id id) { return static_cast<size_t>(id); }

/// How far back a node looks for kernels that read what it reads.
constexpr size_t sibling_window = 4;

}  // namespace

Grouper::Grouper(const graph::Graph& graph, const Uses& uses, const std::vector<Home>& temps, Plan& plan,
                 Pricer& pricer, const Options& options)
    : graph_(graph),
      uses_(uses),
      temps_(temps),
      plan_(plan),
      pricer_(pricer),
      options_(options),
      random_(options.random_seed + 1),
      group_of_(graph.nodes.size(), -1) {}

void Grouper::settle_all(std::span<const Id> nodes) { settle(graph_, uses_, nodes, temps_, plan_.homes); }

/// The first kernel that a node may be in: where all that it reads has been made, and where everything that reads the
/// old elements of an input that it replaces has run, or runs.
size_t Grouper::earliest(Id node) const {
  int first = 0;
  for (Id s : uses_.sources[at(node)]) first = std::max(first, group_of_[at(s)]);
  for (Id result : graph_.nodes[at(node)].results) {
    const Home& home = plan_.homes[at(result)];
    if (home.kind != Home::Kind::replaces) continue;
    for (Id r : uses_.readers[at(home.through.value)]) {
      if (r < node) first = std::max(first, group_of_[at(r)]);
    }
  }
  return static_cast<size_t>(first);
}

/// A kernel that stores over an input reads it at the same points only.
bool Grouper::reads_what_it_replaces_elsewhere(std::span<const Id> nodes) const {
  const auto replaces = [&](Id value) { return plan_.homes[at(value)].kind == Home::Kind::replaces; };
  bool any = false;
  for (Id n : nodes) {
    const std::vector<Id>& results = graph_.nodes[at(n)].results;
    any = any || std::any_of(results.begin(), results.end(), replaces);
  }
  if (!any) return false;
  const auto axes = common_axes(graph_, nodes, plan_.homes);
  if (!axes) return true;
  for (const NodeAxes& writer : axes->nodes) {
    const std::vector<Id>& results = graph_.nodes[at(writer.node)].results;
    for (size_t w = 0; w < results.size(); ++w) {
      if (!replaces(results[w])) continue;
      for (const NodeAxes& reader : axes->nodes) {
        for (const AxisRef& r : reader.reads) {
          if (r.internal || r.value != writer.results[w].value) continue;
          if (r.offset != writer.results[w].offset || r.strides != writer.results[w].strides) return true;
        }
      }
    }
  }
  return false;
}

bool Grouper::shares_a_read(Id node, const std::vector<Id>& group) const {
  for (const Ref* mine : graph::reads(graph_.nodes[at(node)].kind)) {
    for (Id other : group) {
      for (const Ref* theirs : graph::reads(graph_.nodes[at(other)].kind))
        if (mine->value == theirs->value) return true;
    }
  }
  return false;
}

/// Joins the kernel when the form takes the node and one kernel is not slower than two.
bool Grouper::join(Id node, size_t group) {
  std::vector<Id> trial = groups_[group];
  trial.push_back(node);
  settle_all(trial);
  const bool random = options_.random_seed != 0;
  bool joins = pricer_.accepts(trial) && !reads_what_it_replaces_elsewhere(trial);
  if (joins) {
    const auto together = pricer_.best(trial);
    joins = together.has_value();
    if (joins && !random) {
      settle_all(groups_[group]);
      const auto before = pricer_.best(groups_[group]);
      settle_all(std::span(&node, 1));
      const auto alone = pricer_.best(std::span(&node, 1));
      joins = !before || !alone || together->kernel.cost_ps <= before->kernel.cost_ps + alone->kernel.cost_ps;
    }
  }
  if (joins) {
    settle_all(trial);
    groups_[group] = std::move(trial);
    group_of_[at(node)] = static_cast<int>(group);
  } else {
    settle_all(groups_[group]);
    settle_all(std::span(&node, 1));
  }
  return joins;
}

std::vector<std::vector<Id>> Grouper::run() {
  const bool random = options_.random_seed != 0;
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Id node = static_cast<Id>(n);
    if (uses_.folded[n]) continue;
    bool joined = false;
    const bool pointwise = form_of(graph_.nodes[n].kind) == Form::rows;
    if (pointwise && !(random && random_() % 4 == 0)) {
      const std::vector<Id>& sources = uses_.sources[n];
      for (size_t g = earliest(node); g < groups_.size() && !joined; ++g) {
        const std::vector<Id>& group = groups_[g];
        const bool produces =
            std::any_of(sources.begin(), sources.end(), [&](Id s) { return group_of_[at(s)] == static_cast<int>(g); });
        const bool near =
            g + sibling_window >= groups_.size() && form_of(graph_.nodes[at(group[0])].kind) == Form::rows;
        if (produces || (near && shares_a_read(node, group))) joined = join(node, g);
      }
    }
    if (joined) continue;
    group_of_[n] = static_cast<int>(groups_.size());
    groups_.push_back({node});
    settle_all(groups_.back());
  }
  return std::move(groups_);
}

}  // namespace spyre::plan
