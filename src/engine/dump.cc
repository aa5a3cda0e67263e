#include "engine/dump.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/trace_writer.h"
#include "engine/options.h"
#include "program/program.h"

namespace spyre::engine {

void write_trace(const std::string& path, const program::Program& program, const timing::ScalarValues& scalars,
                 const device::Description& description) {
  base::TraceWriter trace(path);
  timing::WalkOptions walk;
  walk.trace = &trace;
  timing::walk(program, scalars, description, walk);
  trace.close();
}

void dump(const std::string& directory, const std::string& graph_hash, const std::string& key,
          const graph::Graph& graph, const Compiled& compiled, const card::Executable& executable,
          const device::Description& description) {
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const std::string name = directory + "/" + graph_hash.substr(0, 12) + "-" + key.substr(0, 12);
  const auto write = [&](const char* suffix, const std::string& text) {
    std::ofstream file(name + suffix, std::ios::trunc);
    file << text;
    file.close();
    if (!file) warn(fmt::format("SPYRE_DUMP: {}{} can't be written", name, suffix));
  };
  const program::Program& program = executable.program();
  write(".graph", graph::print(graph));
  write(".instance", graph::print(compiled.prepared.graph));
  write(".plan", compiled.artifact.plan);
  write(".tile", program::print(program));
  for (size_t r = 0; r < compiled.artifact.repacks.size(); ++r)
    write(fmt::format(".repack{}.tile", r).c_str(), program::print(compiled.artifact.repacks[r].program));
  try {
    timing::ScalarValues scalars;
    for (const program::Scalar& s : program.scalars) scalars.push_back(std::clamp(1.0, s.lo, s.hi));
    write_trace(name + ".json", program, scalars, description);
  } catch (const Error& error) {
    warn(fmt::format("SPYRE_DUMP: {}", error.what()));
  }
}

}  // namespace spyre::engine
