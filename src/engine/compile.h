// Compile: a graph and the situation it is launched in become a program. Nothing here knows devices or memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "device/description.h"
#include "engine/artifact.h"
#include "graph/graph.h"
#include "layout/geometry.h"
#include "lower/lower.h"
#include "plan/plan.h"

namespace spyre::engine {

/// Everything about a launch that decides about the program, beside graph and card.
struct Situation {
  std::vector<int64_t> symbols;
  struct Input {
    layout::HostView view;      ///< of its allocation
    layout::Geometry geometry;  ///< of its allocation
    int32_t same_as = -1;       ///< an earlier input that is the very same tensor
  };
  std::vector<Input> inputs;
  std::vector<layout::Geometry> outputs;  ///< of their allocations
  base::Hash128 hash() const;
};

/// All that is known of an instance. The disk keeps the artifact only.
struct Compiled {
  plan::Prepared prepared;
  plan::Plan plan;
  lower::Lowered lowered;
  Artifact artifact;
};

/// Throws Error(user) for a situation that doesn't fit the graph, and what graph::instantiate, plan::choose and
/// lower::lower throw.
Compiled compile(const graph::Graph& graph, const Situation& situation, const device::Description& description);

/// For tests: called with what was lowered, before the artifact is made of it. Null: nothing.
void set_lowered_hook(std::function<void(lower::Lowered&)> hook);

}  // namespace spyre::engine
