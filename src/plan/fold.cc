#include "plan/fold.h"

#include <algorithm>

#include "plan/axes.h"

namespace spyre::plan {

namespace {

using graph::Expr;
using graph::Graph;
using graph::Map;
using graph::Ref;

struct Reader {
  Id node;
  const Ref* ref;
  bool gathers;
};

/// Elements that follow each other in memory along the innermost dimension that has any: 1 when none do. Neighbours
/// that make one run are one.
int64_t run_of(const Ref& ref) {
  int64_t run = 1;
  for (size_t d = ref.sizes.size(); d-- > 0;) {
    const int64_t size = number(ref.sizes[d]);
    if (size == 1) continue;
    if (number(ref.strides[d]) == run) run *= size;
  }
  return run;
}

bool repeats(const Ref& ref) {
  for (size_t d = 0; d < ref.sizes.size(); ++d) {
    if (!ref.sizes[d].is(1) && ref.strides[d].is(0)) return true;
  }
  return false;
}

/// Readers of these kinds loop over common axes, where dimensions may be split (plan/axes.h); others keep theirs.
bool splits_dimensions(const graph::Kind& kind) {
  return std::holds_alternative<Map>(kind) || std::holds_alternative<graph::Reduce>(kind) ||
         std::holds_alternative<graph::Contract>(kind);
}

/// Whether the reader may go without the copy: by strides, and without an element gather that the copy spares it.
/// `homes`: with the copy folded.
bool can_go_without(const Graph& g, const Reader& reader, size_t readers, const std::vector<Home>& homes) {
  if (reader.gathers) return false;
  const auto made = refine(*reader.ref, g, homes);
  const graph::Kind& kind = g.nodes[at(reader.node)].kind;
  if (!made || (made->sizes.size() != reader.ref->sizes.size() && !splits_dimensions(kind))) return false;
  constexpr int64_t worth = 16;  // a run as short as this moves element by element anyway
  if (run_of(*made) >= std::min(run_of(*reader.ref), worth)) return true;
  // The copy would gather the same elements once, as this one reader does.
  return std::holds_alternative<Map>(kind) && readers == 1 && !repeats(*reader.ref);
}

}  // namespace

const Ref* copied(const Graph& g, const graph::Node& node) {
  const Map* map = std::get_if<Map>(&node.kind);
  if (!map || map->value.size() != 1 || map->loads.size() != 1) return nullptr;
  const Expr& e = map->value[0];
  if (e.leaf != Expr::Leaf::load || !map->loads[0].gathers.empty()) return nullptr;
  const Ref& from = map->loads[0].ref;
  return g.values[at(from.value)].type == g.values[at(node.results[0])].type ? &from : nullptr;
}

void fold_copies(const Graph& g, const std::vector<bool>& changed, base::FunctionRef<bool(Id)> skip,
                 std::vector<Home>& homes) {
  std::vector<std::vector<Reader>> readers(g.values.size());
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const graph::Kind& kind = g.nodes[n].kind;
    for (const Ref* ref : graph::reads(kind)) {
      readers[at(ref->value)].push_back({static_cast<Id>(n), ref, graph::gathered(kind, ref)});
    }
  }
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    const Ref* from = copied(g, g.nodes[n]);
    if (!from) continue;
    const Id copy = g.nodes[n].results[0];
    if (homes[at(copy)].kind != Home::Kind::temp || readers[at(copy)].empty()) continue;
    const auto source = refine(*from, g, homes);
    if (!source || source->sizes.size() != from->sizes.size()) continue;
    if (changed[at(source->value)] || skip(static_cast<Id>(n))) continue;
    const Home before = homes[at(copy)];
    homes[at(copy)] = {Home::Kind::folded, {}, *source};
    const bool all = std::all_of(readers[at(copy)].begin(), readers[at(copy)].end(), [&](const Reader& r) {
      return can_go_without(g, r, readers[at(copy)].size(), homes);
    });
    if (!all) homes[at(copy)] = before;
  }
}

}  // namespace spyre::plan
