#include "plan/group.h"

#include <algorithm>
#include <iterator>

#include "plan/axes.h"

namespace spyre::plan {

namespace {

using graph::Ref;

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

/// Whether it is worth asking for the price of a kernel with the node in it: that makes what the node reads; that reads
/// the same; of products, that multiplies the same (q, k and v).
bool Grouper::belongs_to(Id node, Form form, size_t group) const {
  const std::vector<Id>& nodes = groups_[group];
  const std::vector<Id>& sources = uses_.sources[at(node)];
  const bool near = group + sibling_window >= groups_.size() && form_of(graph_.nodes[at(nodes[0])].kind) == form;
  if (form == Form::matmul) return near && multiplies_the_same(node, nodes[0]);
  const bool produces =
      std::any_of(sources.begin(), sources.end(), [&](Id s) { return group_of_[at(s)] == static_cast<int>(group); });
  return produces || (near && shares_a_read(node, nodes));
}

bool Grouper::multiplies_the_same(Id node, Id other) const {
  const auto a = [&](Id n) { return std::get<graph::Contract>(graph_.nodes[at(n)].kind).a.ref.value; };
  return a(node) == a(other);
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
    const Form form = form_of(graph_.nodes[n].kind);
    if ((form == Form::rows || form == Form::matmul) && !(random && random_() % 4 == 0)) {
      for (size_t g = earliest(node); g < groups_.size() && !joined; ++g)
        if (belongs_to(node, form, g)) joined = join(node, g);
    }
    if (joined) continue;
    group_of_[n] = static_cast<int>(groups_.size());
    groups_.push_back({node});
    settle_all(groups_.back());
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (random && random_() % 2 == 0) continue;
    while (const auto absorbed = absorb_a_source(g)) g = *absorbed;
  }
  return std::move(groups_);
}

/// While nodes come one by one, what a later one reads is thought to need memory; so kernels that belong together may
/// have stayed apart. Merges a kernel into `group`, which reads it, and returns where it is then.
std::optional<size_t> Grouper::absorb_a_source(size_t group) {
  if (form_of(graph_.nodes[at(groups_[group][0])].kind) != Form::rows) return std::nullopt;
  for (size_t source = group; source-- > 0;) {
    if (!reads(group, source) || !may_wait(source, group)) continue;
    const std::vector<Id> first = groups_[source], second = groups_[group];
    std::vector<Id> both;
    std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(both));
    settle_all(both);
    if (pricer_.accepts(both) && !reads_what_it_replaces_elsewhere(both)) {
      const auto together = pricer_.best(both);
      settle_all(first);
      settle_all(second);
      const auto a = pricer_.best(first), b = pricer_.best(second);
      if (together && (options_.random_seed != 0 || !a || !b ||
                       together->kernel.cost_ps <= a->kernel.cost_ps + b->kernel.cost_ps)) {
        settle_all(both);
        groups_[group] = std::move(both);
        groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(source));
        for (size_t g = source; g < groups_.size(); ++g) {
          for (Id n : groups_[g]) group_of_[at(n)] = static_cast<int>(g);
        }
        return group - 1;
      }
    }
    settle_all(first);
    settle_all(second);
  }
  return std::nullopt;
}

bool Grouper::reads(size_t group, size_t source) const {
  for (Id n : groups_[group]) {
    for (Id s : uses_.sources[at(n)]) {
      if (group_of_[at(s)] == static_cast<int>(source)) return true;
    }
  }
  return false;
}

/// A kernel may run as late as `until`: nothing between needs it, or stores over what it reads.
bool Grouper::may_wait(size_t source, size_t until) const {
  const Form form = form_of(graph_.nodes[at(groups_[source][0])].kind);
  if (form != Form::rows && form != Form::matmul) return false;
  for (size_t between = source + 1; between < until; ++between) {
    if (reads(between, source)) return false;
    for (Id n : groups_[between]) {
      for (Id result : graph_.nodes[at(n)].results) {
        const Home& home = plan_.homes[at(result)];
        if (home.kind != Home::Kind::replaces) continue;
        for (Id r : uses_.readers[at(home.through.value)]) {
          if (group_of_[at(r)] == static_cast<int>(source)) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace spyre::plan
