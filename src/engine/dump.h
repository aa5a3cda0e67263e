// Dump: an instance as files for people.
#pragma once

#include <string>

#include "card/card.h"
#include "engine/compile.h"

namespace spyre::engine {

/// Writes the modelled timeline of a program (Perfetto). Throws Error(system) when the file can't be written.
void write_trace(const std::string& path, const program::Program& program, const timing::ScalarValues& scalars,
                 const device::Description& description);

/// SPYRE_DUMP: writes <graph hash>-<key>.graph, .instance, .plan, .tile and .json (the timeline, scalars at 1 or in
/// their bounds) into the directory. What can't be written is warned about.
void dump(const std::string& directory, const std::string& graph_hash, const std::string& key,
          const graph::Graph& graph, const Compiled& compiled, const card::Executable& executable,
          const device::Description& description);

}  // namespace spyre::engine
