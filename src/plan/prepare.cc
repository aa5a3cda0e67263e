// The instance as plan and lower take it: mutations are copies, nothing is empty.
#include <algorithm>

#include "plan/plan.h"
#include "plan/simplify.h"

namespace spyre::plan {

namespace {

using graph::Graph;
using graph::Ref;

/// Adds a Map that copies `ref` into a new value of these sizes.
Id add_copy(Graph& g, const Ref& ref, std::string name) {
  const graph::HostType type = g.values[at(ref.value)].type;
  const Id id = static_cast<Id>(g.values.size());
  g.values.push_back(
      {std::move(name), type, ref.sizes, graph::contiguous(ref.sizes), static_cast<Id>(g.nodes.size()), 0});
  g.nodes.push_back({graph::copy_of(ref, type), {id}, {"copy_", ""}});
  return id;
}

bool has_elements(const Ref& ref) {
  return std::none_of(ref.sizes.begin(), ref.sizes.end(), [](const graph::Size& s) { return s.is(0); });
}

void copies_of_mutations(Graph& g) {
  std::erase_if(g.mutations, [](const Graph::Mutation& m) { return !has_elements(m.value); });
  // What is copied from one input into another that is changed too is put aside first.
  for (size_t i = 0; i < g.mutations.size(); ++i) {
    const Id from = g.mutations[i].value.value;
    const bool changes =
        std::any_of(g.mutations.begin(), g.mutations.end(), [&](const Graph::Mutation& m) { return m.input == from; });
    if (changes) g.mutations[i].value = graph::whole(g, add_copy(g, g.mutations[i].value, ""));
  }
  for (size_t i = 0; i < g.mutations.size(); ++i) {
    const Id copy = add_copy(g, g.mutations[i].value, "");
    g.mutations[i].value = graph::whole(g, copy);
  }
}

}  // namespace

Prepared prepare(Graph instance) {
  Prepared out;
  remove_empty(instance);
  share_equal(instance);
  copies_of_mutations(instance);
  inline_constants(instance);
  simplify_indices(instance);
  affine_gathers(instance);
  drop_known(instance);
  read_narrow(instance);
  make_once(instance);
  graph::remove_dead_nodes(instance);
  out.replaces.assign(instance.values.size(), none);
  for (const Graph::Mutation& m : instance.mutations) out.replaces[at(m.value.value)] = m.input;
  instance.mutations.clear();
  out.graph = std::move(instance);
  return out;
}

}  // namespace spyre::plan
