// Programs: graphs that a launch op runs, known in this process by key.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace spyre::torch {

struct Program {
  enum class Source : uint8_t { input, mutated, constant };
  std::shared_ptr<engine::Executor> executor;
  std::vector<std::pair<Source, size_t>> sources;  ///< per input of the graph: where the launch has it, and its place
  std::vector<at::Tensor> constants;               ///< on the CPU

  std::mutex mutex;                               // all below
  std::vector<std::vector<at::Tensor>> uploaded;  ///< the constants on each device, made at the first launch there
  std::string dump_path;                          ///< prefix of files for each instance; empty: none
  std::set<std::vector<int64_t>> dumped;
};

/// Makes a program known. Throws for a text that is no graph, or whose inputs aren't those of `sources`.
void define_program(const std::string& key, const std::string& text,
                    std::vector<std::pair<Program::Source, size_t>> sources, std::vector<at::Tensor> constants);
/// Throws for a key that nobody has defined.
Program& find_program(std::string_view key);

/// One recorded launch.
struct LaunchRecord {
  std::string key;
  std::vector<int64_t> symbols;
  engine::Executor::Description description;
};
/// From now on every launch is described, until take_launches(). `trace_path` not empty: the modelled timeline of
/// launch i goes to <trace_path>_<i>.json (Perfetto).
void record_launches(const std::string& trace_path);
std::vector<LaunchRecord> take_launches();

}  // namespace spyre::torch
