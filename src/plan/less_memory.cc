// Values made smaller: dimensions that only repeat, and types that are wider than what they hold.
#include <algorithm>

#include "plan/axes.h"
#include "plan/simplify.h"

namespace spyre::plan {

namespace {

using graph::Expr;
using graph::Graph;
using graph::HostType;
using graph::Kind;
using graph::Load;
using graph::Map;
using graph::Node;
using graph::Ref;

/// What the launch returns or writes into inputs keeps its shape and type.
std::vector<bool> given_out(const Graph& g) {
  std::vector<bool> out(g.values.size());
  for (const Ref& r : g.outputs) out[at(r.value)] = true;
  for (const Graph::Mutation& m : g.mutations) out[at(m.value.value)] = true;
  return out;
}

/// Nodes whose references may be exchanged for others of the same elements.
bool reads_by_strides(const Kind& kind) {
  return std::holds_alternative<Map>(kind) || std::holds_alternative<graph::Reduce>(kind) ||
         std::holds_alternative<graph::Contract>(kind) || std::holds_alternative<graph::Attention>(kind);
}

bool uses_index(const Expr& e, int32_t dim) {
  if (e.leaf == Expr::Leaf::iota && e.id == dim) return true;
  return std::any_of(e.args.begin(), e.args.end(), [&](const Expr& a) { return uses_index(a, dim); });
}

/// Nothing that the map computes with differs along the dimension.
bool repeats_along(const Map& map, int32_t dim) {
  if (number(map.space[static_cast<size_t>(dim)]) <= 1) return false;
  for (const Load& load : map.loads) {
    if (number(load.ref.strides[static_cast<size_t>(dim)]) != 0) return false;
    for (const Load::Gather& gather : load.gathers)
      if (uses_index(gather.index, dim)) return false;
  }
  return std::none_of(map.value.begin(), map.value.end(), [&](const Expr& e) { return uses_index(e, dim); });
}

/// Dense strides in the order of the old ones.
void pack(graph::Value& value) {
  std::vector<size_t> order;
  for (size_t d = 0; d < value.sizes.size(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return number(value.strides[a]) > number(value.strides[b]); });
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    value.strides[order[i]] = stride;
    stride *= number(value.sizes[order[i]]);
  }
}

/// The elements of `ref`, a view of `before`, as a view of `after`, which repeats where its sizes are 1.
std::optional<Ref> as_view_of(const graph::Value& before, const graph::Value& after, const Ref& ref) {
  const auto along = indices(before, ref);
  if (!along) return std::nullopt;
  Ref out = ref;
  int64_t offset = 0;
  std::vector<int64_t> strides(ref.sizes.size());
  for (size_t d = 0; d < along->size(); ++d) {
    if (after.sizes[d].is(1)) continue;
    const int64_t stride = number(after.strides[d]);
    offset += (*along)[d].constant * stride;
    for (const auto& [dim, factor] : (*along)[d].terms) strides[static_cast<size_t>(dim)] += factor * stride;
  }
  out.offset = offset;
  for (size_t i = 0; i < strides.size(); ++i) out.strides[i] = strides[i];
  return out;
}

/// The values hold the same numbers, the first one in less memory or the same.
bool widens(HostType from, HostType to) {
  switch (from) {
    case HostType::f16:
    case HostType::bf16:
      return to == HostType::f32;
    case HostType::i8:
    case HostType::u8:
      return to == HostType::i16 || to == HostType::i32 || to == HostType::i64;
    case HostType::i16:
      return to == HostType::i32 || to == HostType::i64;
    default:
      return false;
  }
}

}  // namespace

void make_once(Graph& g) {
  const std::vector<bool> kept = given_out(g);
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    Map* map = std::get_if<Map>(&g.nodes[n].kind);
    if (!map) continue;
    const std::vector<graph::Id>& results = g.nodes[n].results;
    if (std::any_of(results.begin(), results.end(), [&](Id r) { return kept[at(r)]; })) continue;
    std::vector<size_t> dims;
    for (size_t d = 0; d < map->space.size(); ++d) {
      if (repeats_along(*map, static_cast<int32_t>(d))) dims.push_back(d);
    }
    if (dims.empty()) continue;
    std::vector<graph::Value> smaller;
    for (Id r : results) {
      smaller.push_back(g.values[at(r)]);
      for (size_t d : dims) smaller.back().sizes[d] = 1;
      pack(smaller.back());
    }
    std::vector<std::pair<Ref*, Ref>> changes;
    bool all = true;
    for (size_t reader = n + 1; reader < g.nodes.size() && all; ++reader) {
      Kind& kind = g.nodes[reader].kind;
      for (Ref* ref : graph::reads(kind)) {
        const auto result = std::find(results.begin(), results.end(), ref->value);
        if (result == results.end()) continue;
        std::optional<Ref> view;
        if (reads_by_strides(kind) && !graph::gathered(kind, ref))
          view = as_view_of(g.values[at(*result)], smaller[static_cast<size_t>(result - results.begin())], *ref);
        if (!(all = view.has_value())) break;
        changes.emplace_back(ref, std::move(*view));
      }
    }
    if (!all || changes.empty()) continue;
    for (auto& [ref, view] : changes) *ref = std::move(view);
    for (size_t d : dims) {
      map->space[d] = 1;
      for (Load& load : map->loads) load.ref.sizes[d] = 1;
    }
    for (size_t r = 0; r < results.size(); ++r) g.values[at(results[r])] = std::move(smaller[r]);
  }
}

void read_narrow(Graph& g) {
  const std::vector<bool> kept = given_out(g);
  std::vector<Id> instead(g.values.size(), none);
  for (Node& node : g.nodes) {
    if (std::holds_alternative<Map>(node.kind) || std::holds_alternative<graph::Reduce>(node.kind)) {
      for (Ref* ref : graph::reads(node.kind))
        if (instead[at(ref->value)] != none) ref->value = instead[at(ref->value)];
    }
    const Map* map = std::get_if<Map>(&node.kind);
    if (!map || map->value.size() != 1 || map->loads.size() != 1 || kept[at(node.results[0])]) continue;
    const Ref& from = map->loads[0].ref;
    const graph::Value &narrow = g.values[at(from.value)], &wide = g.values[at(node.results[0])];
    if (map->value[0].leaf != Expr::Leaf::load || !map->loads[0].gathers.empty()) continue;
    if (!widens(narrow.type, wide.type) || from != graph::whole(g, from.value)) continue;
    if (wide.sizes == narrow.sizes && wide.strides == narrow.strides) instead[at(node.results[0])] = from.value;
  }
}

}  // namespace spyre::plan
