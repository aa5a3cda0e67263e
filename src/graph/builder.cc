// Building a graph call by call, and removing what nobody reads.
#include <algorithm>

#include "base/error.h"
#include "graph/import.h"

namespace spyre::graph {

namespace {

/// Fields that a leaf or operation doesn't use have their defaults, so that equal graphs are equal field by field.
void normalise(Expr& e) {
  using Leaf = Expr::Leaf;
  const bool number = e.leaf == Leaf::constant && e.type == Reg::f32;
  const bool integer = (e.leaf == Leaf::constant && !number) || (e.leaf == Leaf::none && e.op == VecOp::philox);
  if (!number) e.number = 0;
  if (!integer) e.integer = 0;
  if (e.leaf == Leaf::constant && e.type == Reg::pred) e.integer = e.integer != 0;
  if (e.leaf != Leaf::none) {
    e.op = VecOp::add;
    e.trap = false;
    e.args.clear();
  }
  if (e.leaf == Leaf::none || e.leaf == Leaf::constant || e.leaf == Leaf::size) e.id = none;
  if (e.leaf != Leaf::size) e.size = 0;
  for (Expr& a : e.args) normalise(a);
}

void normalise(Load& load) {
  bool fills = false;
  for (Load::Gather& g : load.gathers) {
    normalise(g.index);
    fills = fills || g.outside == OnOutside::fill;
  }
  if (!fills) load.fill = 0;
}

void normalise(Kind& kind) {
  std::visit(
      [](auto& n) {
        using N = std::remove_cvref_t<decltype(n)>;
        if constexpr (std::is_same_v<N, Contract>) {
          normalise(n.a);
          normalise(n.b);
        } else if constexpr (std::is_same_v<N, Attention>) {
          normalise(n.scale);
        } else if constexpr (std::is_same_v<N, Place>) {
          if (n.base) n.fill = 0;
        } else if constexpr (!std::is_same_v<N, Sort>) {
          for (Load& load : n.loads) normalise(load);
          if constexpr (std::is_same_v<N, Map>) {
            for (Expr& e : n.value) normalise(e);
          } else {
            normalise(n.value);
          }
          if constexpr (std::is_same_v<N, Scatter>) {
            for (Scatter::Target& t : n.targets) normalise(t.index);
          }
        }
      },
      kind);
}

Id size_of(const auto& list) { return static_cast<Id>(list.size()); }

}  // namespace

Id Builder::symbol(std::string name, int64_t lo, int64_t hi) {
  graph_.symbols.push_back({std::move(name), lo, hi});
  return size_of(graph_.symbols) - 1;
}

Id Builder::param(std::string name, bool is_float) {
  graph_.params.push_back({std::move(name), is_float});
  return size_of(graph_.params) - 1;
}

Ref Builder::input(std::string name, HostType type, std::vector<Size> sizes, std::vector<Size> strides) {
  const Id id = size_of(graph_.values);
  graph_.values.push_back({std::move(name), type, std::move(sizes), std::move(strides), none, 0});
  graph_.inputs.push_back(id);
  return whole(graph_, id);
}

std::vector<Ref> Builder::add(Kind kind, std::vector<HostType> types, const Loc& loc,
                              std::vector<std::vector<Size>> strides) {
  const auto count = static_cast<size_t>(result_count(kind));
  if (types.size() != count || (!strides.empty() && strides.size() != count))
    fail(Fault::program, "a {} node of {} has {} results, not {}", kind_name(kind), loc.op, count, types.size());
  normalise(kind);
  Node node;
  std::vector<Ref> results;
  for (size_t r = 0; r < count; ++r) {
    Value v;
    v.type = types[r];
    v.sizes = result_sizes(kind, static_cast<int>(r));
    v.strides =
        strides.empty() || (strides[r].empty() && !v.sizes.empty()) ? contiguous(v.sizes) : std::move(strides[r]);
    v.node = size_of(graph_.nodes);
    v.result = static_cast<int32_t>(r);
    node.results.push_back(size_of(graph_.values));
    graph_.values.push_back(std::move(v));
    results.push_back(whole(graph_, node.results.back()));
  }
  node.kind = std::move(kind);
  node.loc = loc;
  graph_.nodes.push_back(std::move(node));
  return results;
}

HostType Builder::type(const Ref& ref) const {
  if (ref.value < 0 || ref.value >= size_of(graph_.values))
    fail(Fault::program, "a reference names value {}", ref.value);
  return graph_.values[static_cast<size_t>(ref.value)].type;
}

void Builder::output(const Ref& ref) {
  const HostType t = type(ref);
  const bool own = graph_.values[static_cast<size_t>(ref.value)].node != none && ref == whole(graph_, ref.value);
  const bool taken =
      std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const Ref& o) { return o.value == ref.value; });
  graph_.outputs.push_back(own && !taken ? ref : add(copy_of(ref, t), {t}, {"clone", ""})[0]);
}

void Builder::mutate(Id input, const Ref& value) { graph_.mutations.push_back({input, value}); }

Graph Builder::finish() && {
  Graph graph = std::move(graph_);
  graph_ = {};
  verify(graph);
  remove_dead_nodes(graph);
  return graph;
}

void remove_dead_nodes(Graph& graph) {
  std::vector<bool> live_node(graph.nodes.size()), live_value(graph.values.size());
  std::vector<Id> work;
  const auto reach = [&](Id value) {
    live_value[static_cast<size_t>(value)] = true;
    const Id node = graph.values[static_cast<size_t>(value)].node;
    if (node == none || live_node[static_cast<size_t>(node)]) return;
    live_node[static_cast<size_t>(node)] = true;
    work.push_back(node);
  };
  for (Id input : graph.inputs) live_value[static_cast<size_t>(input)] = true;
  for (const Ref& output : graph.outputs) reach(output.value);
  for (const Graph::Mutation& m : graph.mutations) reach(m.value.value);
  while (!work.empty()) {
    const Node& node = graph.nodes[static_cast<size_t>(work.back())];
    work.pop_back();
    for (Id r : node.results) live_value[static_cast<size_t>(r)] = true;
    for (const Ref* ref : reads(node.kind)) reach(ref->value);
  }
  if (std::find(live_node.begin(), live_node.end(), false) == live_node.end()) return;

  std::vector<Id> new_node(graph.nodes.size(), none), new_value(graph.values.size(), none);
  std::vector<Node> nodes;
  std::vector<Value> values;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!live_node[n]) continue;
    new_node[n] = size_of(nodes);
    nodes.push_back(std::move(graph.nodes[n]));
  }
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (!live_value[v]) continue;
    new_value[v] = size_of(values);
    values.push_back(std::move(graph.values[v]));
    Id& node = values.back().node;
    if (node != none) node = new_node[static_cast<size_t>(node)];
  }
  const auto rename = [&](Id& id) { id = new_value[static_cast<size_t>(id)]; };
  for (Node& node : nodes) {
    for (Id& r : node.results) rename(r);
    for (Ref* ref : reads(node.kind)) rename(ref->value);
  }
  for (Id& input : graph.inputs) rename(input);
  for (Ref& output : graph.outputs) rename(output.value);
  for (Graph::Mutation& m : graph.mutations) {
    rename(m.input);
    rename(m.value.value);
  }
  graph.nodes = std::move(nodes);
  graph.values = std::move(values);
}

}  // namespace spyre::graph
