// For tests: launches of an executor on random tensors, compared with the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/options.h"
#include "lower/run_for_test.h"

namespace spyre::engine {

/// While it lives, the options are the environment's with these changes, and nothing is kept on disk.
class OptionsForTest {
 public:
  template <typename Change>
  explicit OptionsForTest(Change change) : before_(options()) {
    Options now = before_;
    now.cache = false;
    change(now);
    set_options(now);
  }
  OptionsForTest() : OptionsForTest([](Options&) {}) {}
  ~OptionsForTest() { set_options(before_); }

 private:
  const Options before_;
};

/// A directory of its own that goes with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string path;
};

struct LaunchSettings {
  uint64_t seed = 1;
  std::vector<double> params = {};
  std::vector<int64_t> offsets = {};  ///< per input: where its tensor starts in its memory; empty: 0
  std::vector<int> memory = {};       ///< per input: number of the memory that it lies in; empty: each its own
  std::function<double(const graph::Graph& graph, graph::Id value, std::mt19937_64& random)> fill = {};
  runtime::Stream* stream = nullptr;
};

/// The device that tests launch on; the other one scrambles layouts.
runtime::Device& plain_device();
runtime::Device& scrambled_device();

/// Tensors of one launch.
struct LaunchTensors {
  std::vector<runtime::AllocationPtr> memory;  ///< by memory number
  std::vector<TensorArg> inputs, outputs;
  std::vector<runtime::AllocationPtr> output_memory;
  std::vector<std::vector<double>> contents;  ///< by memory number: elements in storage order
};
LaunchTensors make_tensors(const Executor& executor, runtime::Device& device, const std::vector<int64_t>& symbols,
                           const LaunchSettings& settings);
/// Where outputs and mutated inputs first differ from the interpreter's, or nothing.
std::string difference(const Executor& executor, const std::vector<int64_t>& symbols, const LaunchTensors& tensors,
                       const LaunchSettings& settings);

/// Launches and compares. Fails the test with seed and graph.
void expect_right(Executor& executor, runtime::Device& device, const std::vector<int64_t>& symbols = {},
                  const LaunchSettings& settings = {});
void expect_right(const std::string& graph_text, const LaunchSettings& settings = {});

}  // namespace spyre::engine
