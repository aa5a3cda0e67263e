// The host's time of a launch: finding the instance, binding, the runtime's launch; the card computes nothing.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/options.h"
#include "runtime/test_device.h"

namespace spyre::engine {
namespace {

/// `layers` products with a weight and a bias each.
graph::Graph layers_graph(int layers) {
  std::string text = "input v0 f16 [32:64, 64:1]\n";
  for (int l = 0; l < layers; ++l)
    text += fmt::format("input v{} f16 [64:64, 64:1]\ninput v{} f16 [64:1]\n", 2 * l + 1, 2 * l + 2);
  int last = 0;
  for (int l = 0; l < layers; ++l) {
    const int product = 2 * layers + 1 + 2 * l, sum = product + 1;
    text += fmt::format(
        "v{0} f16 [32:64, 64:1] = contract [32:m, 64:n, 64:k] a(v{1}[32:64, 64:0, 64:1]) b(v{2}[32:0, 64:64, 64:1])\n"
        "v{3} f16 [32:64, 64:1] = map [32, 64] loads(v{0}[32:64, 64:1], v{4}[32:0, 64:1]) value(add(l0, l1))\n",
        product, last, 2 * l + 1, sum, 2 * l + 2);
    last = sum;
  }
  text += fmt::format("output v{}[32:64, 64:1]\n", last);
  return graph::parse(text);
}

void launch(benchmark::State& state) {
  Options o = options();
  o.cache = false;
  set_options(o);
  static auto* const device = new runtime::Device(0, runtime::small_description());
  Executor executor(layers_graph(static_cast<int>(state.range(0))));
  std::vector<runtime::TestTensor> tensors;
  std::vector<TensorArg> inputs, outputs;
  tensors.reserve(1000);
  for (const graph::Id id : executor.graph().inputs) {
    std::vector<int64_t> sizes;
    for (const graph::Size& n : executor.graph().values[static_cast<size_t>(id)].sizes) sizes.push_back(*n.constant());
    tensors.emplace_back(*device, sizes, base::HostType::f16);
    inputs.push_back({tensors.back().allocation.get(), tensors.back().view});
  }
  tensors.emplace_back(*device, std::vector<int64_t>{32, 64}, base::HostType::f16);
  outputs.push_back({tensors.back().allocation.get(), tensors.back().view});
  device->timing_only() = true;
  const auto run = [&] { executor.run(device->default_stream(), {}, inputs, outputs, {}); };
  run();
  device->synchronize();
  for (auto _ : state) run();
  device->synchronize();
  state.counters["inputs"] = static_cast<double>(inputs.size());
}
BENCHMARK(launch)->Arg(1)->Arg(55)->Unit(benchmark::kMicrosecond);

void compile(benchmark::State& state) {
  Options o = options();
  o.cache = false;
  set_options(o);
  static auto* const device = new runtime::Device(0, runtime::small_description());
  const graph::Graph graph = layers_graph(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    Executor executor(graph);
    std::vector<runtime::TestTensor> tensors;
    std::vector<TensorArg> inputs;
    tensors.reserve(1000);
    for (const graph::Id id : executor.graph().inputs) {
      std::vector<int64_t> sizes;
      for (const graph::Size& n : executor.graph().values[static_cast<size_t>(id)].sizes)
        sizes.push_back(*n.constant());
      tensors.emplace_back(*device, sizes, base::HostType::f16);
      inputs.push_back({tensors.back().allocation.get(), tensors.back().view});
    }
    tensors.emplace_back(*device, std::vector<int64_t>{32, 64}, base::HostType::f16);
    const std::vector<TensorArg> outputs = {{tensors.back().allocation.get(), tensors.back().view}};
    benchmark::DoNotOptimize(executor.describe(*device, {}, inputs, outputs, {}));
  }
}
BENCHMARK(compile)->Arg(1)->Arg(55)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace spyre::engine

BENCHMARK_MAIN();
