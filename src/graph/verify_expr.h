// The rules of expressions, for verify.cc.
#pragma once

#include "graph/graph.h"

namespace spyre::graph {

/// Checks an expression over a space of `rank` dimensions whose first `loads` loads it may name (a gather's index:
/// those before its own). Throws Error(program) with the rule that is broken, without the node.
void verify_expr(const Graph& graph, const Expr& expr, size_t rank, std::span<const Load> loads);

}  // namespace spyre::graph
