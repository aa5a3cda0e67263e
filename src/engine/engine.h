// Engine: a graph and tensors become launches. Instances are made at first need, found quickly later, kept in memory
// and on disk under their content.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "layout/view.h"
#include "runtime/memory.h"
#include "runtime/streams.h"
#include "timing/timeline.h"

namespace spyre::engine {

/// A tensor of a launch: sizes and strides in elements, offset from the start of its allocation.
struct TensorArg {
  runtime::Allocation* allocation = nullptr;  ///< typed, of the dtype of the graph's input; null only for no elements
  layout::HostView view;
};

/// A graph that can be launched at any legal symbol values, on any device. Thread-safe.
class Executor {
 public:
  explicit Executor(graph::Graph graph);
  ~Executor();
  const graph::Graph& graph() const;
  const std::string& hash() const;  ///< graph::content_hash

  /// What a launch at these symbol values returns, for the caller to allocate: dense sizes, strides and type per
  /// output.
  struct OutputSpec {
    std::vector<int64_t> sizes, strides;
    base::HostType type = base::HostType::f16;
  };
  /// Computed once per symbol values.
  std::shared_ptr<const std::vector<OutputSpec>> output_specs(std::span<const int64_t> symbols) const;

  /// Enqueues one run. `inputs` in the graph's order; `outputs` allocated by the caller as output_specs() says, typed
  /// with their default placement; `params` by graph param. A mutated input is written in place. An instance is made at
  /// the first call for (symbols; per input geometry, strides and offset; aliasing between tensors; device
  /// description); later calls find it in O(inputs) and only bind. Throws Error(user) for symbol values out of bounds
  /// or tensors that don't fit the graph; everything runtime::LoadedProgram::launch throws. With SPYRE_VERIFY=1 each
  /// kernel is compared with the reference interpreter: Error(program) names op and source line of the first
  /// difference.
  void run(runtime::Stream& stream, std::span<const int64_t> symbols, std::span<const TensorArg> inputs,
           std::span<const TensorArg> outputs, std::span<const double> params);

  /// What an instance looks like, as text for people and tools.
  struct Description {
    std::string plan, program;  ///< plan::print, program::print
    timing::Timeline timeline;
    std::vector<std::string> kernel_names, kernel_ops;  ///< per call
  };
  /// Of the instance for these arguments, made if needed, without running it. `trace_path` not empty: writes the
  /// modelled timeline there (Perfetto).
  Description describe(runtime::Device& device, std::span<const int64_t> symbols, std::span<const TensorArg> inputs,
                       std::span<const TensorArg> outputs, std::span<const double> params,
                       const std::string& trace_path = {});

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The executor of a graph, one per content hash in this process. Names and source lines are not part of a graph's
/// content: messages show those of the graph that came first.
std::shared_ptr<Executor> executor(graph::Graph graph);
/// The executor with this hash if the process has it, else null.
std::shared_ptr<Executor> find_executor(std::string_view hash);

/// Counters and sums of the process.
struct Statistics {
  int64_t instances = 0;  ///< compiled here (found neither in memory nor on disk)
  int64_t disk_hits = 0;
  int64_t rebuilt = 0;  ///< corrupt files on disk that were made anew
  int64_t launches = 0;
  int64_t repacks = 0;
  int64_t modelled_ps = 0;  ///< of all launches
};
Statistics statistics();
void reset_statistics();

/// Gives device memory back that only serves speed: repacked copies of tensors. They are made again when needed.
void release_memory();

/// Where warnings go: a corrupt file or an unusable directory of the disk cache. Null: to stderr.
void set_warning_hook(std::function<void(const std::string&)> hook);

/// Hash of everything beside graph and arguments that decides about the programs made: compiler version, description,
/// options. Constant in a process.
const std::string& compiler_hash();

}  // namespace spyre::engine
