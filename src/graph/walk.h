// Visits every Size of a graph. For graph/'s own sources.
#pragma once

#include <span>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "graph/graph.h"

namespace spyre::graph {

/// Calls fn(size) for every Size inside; G is Graph, Node, Load, Expr, ... or its const form.
template <typename Fn>
struct SizeWalk {
  Fn fn;

  void list(auto& sizes) {
    for (auto& s : sizes) fn(s);
  }
  void ref(auto& r) {
    list(r.sizes);
    list(r.strides);
    fn(r.offset);
  }
  void expr(auto& e) {
    if (e.leaf == Expr::Leaf::size) fn(e.size);
    for (auto& a : e.args) expr(a);
  }
  void load(auto& l) {
    ref(l.ref);
    for (auto& g : l.gathers) {
      expr(g.index);
      fn(g.bound);
      fn(g.stride);
    }
  }
  void kind(auto& k) {
    std::visit(
        [this](auto& n) {
          using N = std::remove_cvref_t<decltype(n)>;
          if constexpr (std::is_same_v<N, Contract>) {
            list(n.space);
            load(n.a);
            load(n.b);
          } else if constexpr (std::is_same_v<N, Attention>) {
            ref(n.q);
            ref(n.k);
            ref(n.v);
            if (n.mask) ref(*n.mask);
            expr(n.scale);
          } else if constexpr (std::is_same_v<N, Place>) {
            if (n.base) ref(*n.base);
            for (auto& piece : n.pieces) {
              ref(piece.from);
              list(piece.start);
              list(piece.step);
            }
            list(n.sizes);
          } else if constexpr (std::is_same_v<N, Sort>) {
            ref(n.from);
            if (n.k) fn(*n.k);
          } else {
            list(n.space);
            for (auto& l : n.loads) load(l);
            if constexpr (std::is_same_v<N, Map>) {
              for (auto& e : n.value) expr(e);
            } else {
              expr(n.value);
            }
            if constexpr (std::is_same_v<N, Scatter>) {
              ref(n.base);
              for (auto& t : n.targets) expr(t.index);
            }
          }
        },
        k);
  }
  void value(auto& v) {
    list(v.sizes);
    list(v.strides);
  }
};
template <typename Fn>
SizeWalk(Fn) -> SizeWalk<Fn>;

/// verify() with the fault that a reference or box outside its tensor is reported as.
void verify(const Graph& graph, Fault bounds);

/// "node 3 (map, aten.add at model.py:7)", for messages.
std::string describe(const Graph& graph, Id node);
/// "[2, s0] f16"
std::string shape_text(HostType type, std::span<const Size> sizes);

}  // namespace spyre::graph
