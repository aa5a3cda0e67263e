// A graph at given symbol values, and the hash that names a graph's content.
#include "base/error.h"
#include "base/hash.h"
#include "graph/walk.h"

namespace spyre::graph {

Graph instantiate(const Graph& graph, std::span<const int64_t> symbols) {
  if (symbols.size() != graph.symbols.size())
    fail(Fault::user, "the graph has {} symbols, {} values are given", graph.symbols.size(), symbols.size());
  for (size_t s = 0; s < symbols.size(); ++s) {
    const Symbol& symbol = graph.symbols[s];
    if (symbols[s] < symbol.lo || symbols[s] > symbol.hi)
      fail(Fault::user, "{} = {} is outside {}..{}, for which the graph was made", symbol.name, symbols[s], symbol.lo,
           symbol.hi);
  }
  Graph out = graph;
  out.symbols.clear();
  Id node = none;
  SizeWalk walk{[&](Size& s) {
    if (!s.constant()) s = s.eval(symbols);
  }};
  try {
    for (Value& v : out.values) {
      node = v.node;
      walk.value(v);
    }
    for (size_t n = 0; n < out.nodes.size(); ++n) {
      node = static_cast<Id>(n);
      walk.kind(out.nodes[n].kind);
    }
    node = none;
    for (Ref& r : out.outputs) walk.ref(r);
    for (Graph::Mutation& m : out.mutations) walk.ref(m.value);
  } catch (const Error& error) {
    if (node == none) throw;
    throw Error(error.fault(), describe(graph, node) + ": " + error.what());
  }
  verify(out, Fault::user);
  return out;
}

std::string content_hash(const Graph& graph) {
  Graph bare = graph;
  for (Symbol& s : bare.symbols) s.name.clear();
  for (Param& p : bare.params) p.name.clear();
  for (Value& v : bare.values) v.name.clear();
  for (Node& n : bare.nodes) n.loc = {};
  return base::Hasher(0x677261706801).add(print(bare)).finish().hex();
}

}  // namespace spyre::graph
