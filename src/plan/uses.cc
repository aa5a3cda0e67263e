#include "plan/uses.h"

#include <algorithm>

#include "base/error.h"
#include "graph/walk.h"
#include "plan/axes.h"
#include "plan/fold.h"
#include "plan/placements.h"
#include "program/verify_sticks.h"

namespace spyre::plan {

namespace {

using graph::Graph;
using graph::Kind;
using graph::Ref;
using HomeKind = Home::Kind;

void insert_sorted(std::vector<Id>& list, Id id) {
  const auto place = std::lower_bound(list.begin(), list.end(), id);
  if (place == list.end() || *place != id) list.insert(place, id);
}

}  // namespace

Uses::Uses(const Graph& graph, const std::vector<Home>& homes)
    : readers(graph.values.size()), sources(graph.nodes.size()), folded(graph.nodes.size()) {
  const auto is_folded = [&](Id value) { return homes[at(value)].kind == HomeKind::folded; };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    folded[n] = std::all_of(node.results.begin(), node.results.end(), is_folded);
    for (const Ref* ref : graph::reads(node.kind)) {
      const Id producer = graph.values[at(ref->value)].node;
      if (producer == none) continue;
      if (!folded[at(producer)]) {
        insert_sorted(sources[n], producer);
      } else {
        for (Id s : sources[at(producer)]) insert_sorted(sources[n], s);
      }
    }
  }
  // Backwards, so that a folded copy's readers are complete when its source gets them.
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const graph::Node& node = graph.nodes[n];
    for (const Ref* ref : graph::reads(node.kind)) {
      std::vector<Id>& list = readers[at(ref->value)];
      if (!folded[n]) {
        insert_sorted(list, static_cast<Id>(n));
      } else {
        for (Id r : readers[at(node.results[0])]) insert_sorted(list, r);
      }
    }
  }
}

bool same_elements(const Ref& a, const Ref& b) {
  if (a.value != b.value || number(a.offset) != number(b.offset) || a.sizes.size() != b.sizes.size()) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (number(a.sizes[d]) != number(b.sizes[d])) return false;
    if (!a.sizes[d].is(1) && number(a.strides[d]) != number(b.strides[d])) return false;
  }
  return true;
}

std::vector<Home> first_homes(const Prepared& prepared, const std::vector<layout::Geometry>& inputs,
                              const device::Description& description, const Options& options) {
  const Graph& g = prepared.graph;
  if (inputs.size() != g.inputs.size())
    fail(Fault::user, "a graph of {} inputs has the geometries of {}", g.inputs.size(), inputs.size());
  std::vector<Home> homes(g.values.size());
  std::vector<bool> read(g.values.size());
  for (const graph::Node& node : g.nodes)
    for (const Ref* ref : graph::reads(node.kind)) read[at(ref->value)] = true;
  std::vector<int64_t> offset(g.values.size());
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    homes[at(g.inputs[i])] = {HomeKind::input, inputs[i], {}};
    if (!prepared.offsets.empty()) offset[at(g.inputs[i])] = prepared.offsets.at(i);
  }
  const auto placement = [&](const graph::Value& v) {
    return layout::default_placement(numbers(v.sizes), numbers(v.strides), v.type, options.ieee).geometry;
  };
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const Id id = g.outputs[i].value;
    homes[at(id)] = {
        HomeKind::output, prepared.outputs.empty() ? placement(g.values[at(id)]) : prepared.outputs.at(i), {}};
  }
  for (size_t v = 0; v < g.values.size(); ++v) {
    Home& home = homes[v];
    if (home.kind != HomeKind::temp) continue;
    const Id replaced = prepared.replaces.at(v);
    if (replaced != none) {
      Ref through = graph::whole(g, replaced);
      through.offset = offset[at(replaced)];
      if (layout::writes_overlap({numbers(through.sizes), numbers(through.strides), 0}))
        fail(Fault::user, "a tensor of shape {} with strides {} is changed in place, and has elements at one place",
             graph::shape_text(g.values[at(replaced)].type, through.sizes),
             graph::shape_text(g.values[at(replaced)].type, through.strides));
      home = {HomeKind::replaces, homes[at(replaced)].geometry, std::move(through)};
    } else if (g.values[v].node == none || !read[v]) {
      home.kind = HomeKind::dead;
    } else {
      home.geometry = placements(g.values[v], options.ieee, description.span_bytes_per_core).front();
    }
  }
  return homes;
}

namespace {

/// The node may write element by element over `through`, reading it at no other place than it writes then.
bool reads_only_where_it_writes(const Graph& g, Id id, const Ref& through) {
  const Kind& kind = g.nodes[at(id)].kind;
  const bool is_map = std::holds_alternative<graph::Map>(kind);
  const bool has_base = std::holds_alternative<graph::Scatter>(kind) ||
                        (std::holds_alternative<graph::Place>(kind) && std::get<graph::Place>(kind).base);
  bool first = true;
  for (const Ref* ref : graph::reads(kind)) {
    if (ref->value == through.value) {
      if (!(is_map || (has_base && first)) || !same_elements(*ref, through)) return false;
      if (graph::gathered(kind, ref)) return false;
    }
    first = false;
  }
  return true;
}

/// A Map that reads where it writes does so tile by tile: tiles may not share sticks.
bool tiles_stay_apart(const Graph& g, Id id, const Ref& through, const layout::Geometry& geometry) {
  const Kind& kind = g.nodes[at(id)].kind;
  if (!std::holds_alternative<graph::Map>(kind)) return true;
  const std::vector<const Ref*> refs = graph::reads(kind);
  if (std::none_of(refs.begin(), refs.end(), [&](const Ref* r) { return r->value == through.value; })) return true;
  layout::HostView view{{}, {}, number(through.offset)};
  for (size_t d = 0; d < through.sizes.size(); ++d) {
    const int64_t size = number(through.sizes[d]), stride = number(through.strides[d]);
    if (size == 1) continue;
    if (!view.sizes.empty() && view.strides.back() == size * stride) {  // neighbours that make one run are one axis
      view.sizes.back() *= size;
      view.strides.back() = stride;
    } else {
      view.sizes.push_back(size);
      view.strides.push_back(stride);
    }
  }
  const auto sticks = program::verifier::stick_shape(view, geometry);
  return sticks.known && sticks.phase == 0;
}

/// Every reader of `value` can follow it to where `homes` has it.
bool readers_follow(const Graph& g, Id value, const std::vector<Home>& homes) {
  for (const graph::Node& node : g.nodes) {
    for (const Ref* ref : graph::reads(node.kind)) {
      if (ref->value != value) continue;
      const auto made = refine(*ref, g, homes);
      if (!made || made->sizes.size() != ref->sizes.size()) return false;
      // An index moves along the value's own strides.
      if (graph::gathered(node.kind, ref) && g.values[at(value)].strides != homes[at(value)].through.strides)
        return false;
    }
  }
  return true;
}

}  // namespace

void store_in_place(const Prepared& prepared, base::FunctionRef<bool(Id)> skip, std::vector<Home>& homes) {
  const Graph& g = prepared.graph;
  std::vector<Id> last_reader(g.values.size(), none);
  for (size_t n = 0; n < g.nodes.size(); ++n)
    for (const Ref* ref : graph::reads(g.nodes[n].kind)) last_reader[at(ref->value)] = static_cast<Id>(n);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Id copy = g.nodes[n].results[0];
    const Ref* from = homes[at(copy)].kind == HomeKind::replaces ? copied(g, g.nodes[n]) : nullptr;
    if (!from || homes[at(from->value)].kind != HomeKind::temp) continue;
    const Ref through = homes[at(copy)].through;
    const Id producer = g.values[at(from->value)].node;
    if (!same_elements(*from, graph::whole(g, from->value)) || skip(static_cast<Id>(n))) continue;
    if (last_reader[at(through.value)] > producer || !reads_only_where_it_writes(g, producer, through)) continue;
    if (!tiles_stay_apart(g, producer, through, homes[at(copy)].geometry)) continue;
    const Home before = homes[at(from->value)];
    homes[at(from->value)] = homes[at(copy)];
    if (!readers_follow(g, from->value, homes)) {
      homes[at(from->value)] = before;
      continue;
    }
    homes[at(copy)] = {HomeKind::folded, {}, through};
  }
}

void settle(const Graph& g, const Uses& uses, std::span<const Id> nodes, const std::vector<Home>& temps,
            std::vector<Home>& homes) {
  for (Id n : nodes) {
    for (Id v : g.nodes[at(n)].results) {
      Home& home = homes[at(v)];
      if (home.kind != HomeKind::temp && home.kind != HomeKind::resident) continue;
      const std::vector<Id>& readers = uses.readers[at(v)];
      const bool inside = std::all_of(readers.begin(), readers.end(),
                                      [&](Id r) { return std::binary_search(nodes.begin(), nodes.end(), r); });
      home = inside ? Home{HomeKind::resident, {}, {}} : temps[at(v)];
    }
  }
}

}  // namespace spyre::plan
