// What is known of a Size from the bounds of the graph's symbols.
#pragma once

#include <cstdint>
#include <span>

#include "graph/graph.h"

namespace spyre::graph {

/// Every value of a size lies in lo..hi; INT64_MIN and INT64_MAX stand for no bound.
struct SizeRange {
  int64_t lo = INT64_MIN, hi = INT64_MAX;
};
SizeRange range_of(const Size& size, std::span<const Symbol> symbols);

/// True when a <= b at every instance, as far as intervals can tell.
bool provably_at_most(const Size& a, const Size& b, std::span<const Symbol> symbols);

}  // namespace spyre::graph
