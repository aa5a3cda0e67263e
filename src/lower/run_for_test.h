// For tests: runs a plan's program on a card and compares every result with the reference interpreter.
//
// Inputs get random values that their format holds exactly; all device memory is poisoned first, so that padding that
// is read shows. Memory is read back as device bytes: no host type rounds it again.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "card/elements.h"
#include "graph/interpreter.h"
#include "lower/lower.h"
#include "program/program.h"
#include "runtime/elements.h"
#include "runtime/launch.h"
#include "runtime/test_device.h"

namespace spyre::lower {

struct RunSettings {
  uint64_t seed = 1;
  /// An element of an input (rounded to its format); null: default_fill. Inputs used as indices need one of their own.
  std::function<double(const graph::Graph& graph, graph::Id value, std::mt19937_64& random)> fill;
  std::vector<double> params;
  bool checker = false;       ///< the card's checker mode
  uint64_t random_order = 0;  ///< not 0: the card's random-order mode with this seed
  bool compare = true;        ///< false: only runs, for programs that must stop
};

inline double default_fill(const graph::Graph& graph, graph::Id value, std::mt19937_64& random) {
  using base::HostType;
  const auto whole = [&](int64_t lo, int64_t hi) {
    return static_cast<double>(std::uniform_int_distribution<int64_t>(lo, hi)(random));
  };
  switch (graph.values[static_cast<size_t>(value)].type) {
    case HostType::b8:
      return whole(0, 1);
    case HostType::u8:
      return whole(0, 255);
    case HostType::i8:
      return whole(-128, 127);
    case HostType::i16:
    case HostType::i32:
    case HostType::i64:
      return whole(-50, 50);
    default:
      return std::uniform_real_distribution<double>(-2, 2)(random);
  }
}

namespace for_test {

inline void encode(base::Format format, double v, std::byte* to) {
  card::fill_elements(to, 1, card::encode_element(v, format), format);
}

inline double decode(base::Format format, const std::byte* from) {
  if (card::is_float(format)) {
    float x = 0;
    card::load_f32(from, format, 1, &x, 1);
    return x;
  }
  int32_t x = 0;
  card::load_i32(from, format, 1, &x, 1);
  return x;
}

using graph::numbers;

inline int64_t storage_elements(const graph::Value& value) {
  int64_t last = 0;
  for (size_t d = 0; d < value.sizes.size(); ++d) {
    const int64_t size = value.sizes[d].constant().value();
    if (size == 0) return 0;
    last += (size - 1) * value.strides[d].constant().value();
  }
  return last + 1;
}

inline runtime::Device& test_device() {
  static runtime::Device device(0, runtime::small_description());
  return device;
}

inline std::string describe(const plan::Plan& plan) {
  std::string text;
  const auto list = [](const auto& numbers) {
    std::string out;
    for (const auto n : numbers) out += (out.empty() ? "" : ",") + std::to_string(n);
    return "[" + out + "]";
  };
  for (const plan::KernelPlan& k : plan.kernels) {
    text += fmt::format("  form {} nodes {} grid {} tile {} slots {}\n", static_cast<int>(k.form), list(k.nodes),
                        list(k.grid), list(k.tile), k.slots);
  }
  for (size_t v = 0; v < plan.homes.size(); ++v)
    text += fmt::format("  home {}: {}\n", v, static_cast<int>(plan.homes[v].kind));
  return text;
}

}  // namespace for_test

/// A plan of these kernels with the homes that follow: inputs, outputs, `replaces`, temps for what crosses kernels,
/// resident for what doesn't, in default geometries; `scramble` not 0: in scrambled ones.
inline plan::Plan plain_plan(const plan::Prepared& prepared, std::vector<plan::KernelPlan> kernels,
                             uint64_t scramble = 0) {
  const graph::Graph& g = prepared.graph;
  using Kind = plan::Home::Kind;
  plan::Plan plan;
  std::vector<int> kernel_of(g.nodes.size(), -1);
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (const graph::Id n : kernels[k].nodes) kernel_of[static_cast<size_t>(n)] = static_cast<int>(k);
  }
  plan.kernels = std::move(kernels);
  for (size_t v = 0; v < g.values.size(); ++v) {
    const graph::Value& value = g.values[v];
    plan::Home home;
    home.kind = value.node == graph::none ? Kind::input : Kind::dead;
    home.geometry =
        layout::default_placement(for_test::numbers(value.sizes), for_test::numbers(value.strides), value.type, false)
            .geometry;
    if (scramble != 0) home.geometry = home.geometry.scrambled(scramble + v);
    for (size_t n = 0; n < g.nodes.size(); ++n) {
      for (const graph::Ref* ref : graph::reads(g.nodes[n].kind)) {
        if (ref->value != static_cast<graph::Id>(v) || home.kind == Kind::input) continue;
        const bool outside = kernel_of[n] != kernel_of[static_cast<size_t>(value.node)];
        if (outside || home.kind == Kind::dead) home.kind = outside ? Kind::temp : Kind::resident;
      }
    }
    for (const graph::Ref& out : g.outputs) {
      if (out.value == static_cast<graph::Id>(v) && value.node != graph::none) home.kind = Kind::output;
    }
    if (v < prepared.replaces.size() && prepared.replaces[v] != graph::none) {
      home = {};
      home.kind = Kind::replaces;
      home.through = graph::whole(g, prepared.replaces[v]);
    }
    plan.homes.push_back(std::move(home));
  }
  return plan;
}

/// A graph without mutations, as plan::prepare gives it.
inline plan::Prepared as_prepared(graph::Graph graph) {
  plan::Prepared prepared;
  prepared.replaces.assign(graph.values.size(), graph::none);
  prepared.graph = std::move(graph);
  return prepared;
}

/// Lowers and runs the plan; returns where a result first differs from the interpreter's, or nothing. Throws what
/// lower() and the launch throw, and what interpret() throws for illegal values.
inline std::string first_difference(const graph::Graph& graph, const plan::Plan& plan,
                                    const RunSettings& settings = {}) {
  using Kind = plan::Home::Kind;
  runtime::Device& device = for_test::test_device();
  runtime::Stream& stream = device.default_stream();
  std::mt19937_64 random(settings.seed);

  const Lowered lowered = lower(graph, plan, device.description());
  const auto executable = std::make_shared<const card::Executable>(lowered.program, device.description());

  // Memory of inputs and outputs, by value.
  std::vector<runtime::AllocationPtr> memory(graph.values.size());
  std::vector<graph::Tensor> inputs;
  const auto contents = [&](size_t v) {
    return runtime::contents_of(device, memory[v]->state(), memory[v]->logical_bytes());
  };
  const auto allocate = [&](size_t v) {
    const graph::Value& value = graph.values[v];
    auto placement = std::make_shared<runtime::Placement>();
    placement->type = value.type;
    placement->geometry = plan.homes[v].geometry;
    memory[v] = device.allocator().allocate_exact(placement->geometry.storage_elements * base::host_bytes(value.type),
                                                  stream, placement);
    device.synchronize();
    const runtime::Contents c = contents(v);
    if (c.device_bytes() > 0) std::memset(c.bytes, 0xff, static_cast<size_t>(c.device_bytes()));
  };
  for (const graph::Id id : graph.inputs) {
    const auto v = static_cast<size_t>(id);
    const graph::Value& value = graph.values[v];
    allocate(v);
    const base::Format format = plan.homes[v].geometry.format;
    const auto bytes = static_cast<size_t>(base::format_bytes(format));
    const int64_t n = std::max(for_test::storage_elements(value), plan.homes[v].geometry.storage_elements);
    graph::Tensor tensor;
    std::vector<std::byte> elements(static_cast<size_t>(n) * bytes);
    for (int64_t i = 0; i < n; ++i) {
      const double x = settings.fill ? settings.fill(graph, id, random) : default_fill(graph, id, random);
      std::byte* const at = elements.data() + static_cast<size_t>(i) * bytes;
      for_test::encode(format, x, at);
      tensor.value.push_back(for_test::decode(format, at));
    }
    if (n > 0) runtime::scatter(elements.data(), runtime::device_side(contents(v), value.type, {{n}, {1}, 0}));
    inputs.push_back(std::move(tensor));
  }
  std::vector<graph::Tensor> expected;
  if (settings.compare) expected = graph::interpret(graph, inputs, settings.params);

  std::vector<runtime::Binding> bindings;
  for (size_t s = 0; s < lowered.symbols.size(); ++s) {
    if (lowered.program.symbols[s].direction == program::Direction::temp) continue;
    const auto v = static_cast<size_t>(lowered.symbols[s].value);
    if (!memory.at(v)) allocate(v);
    bindings.push_back({static_cast<program::Id>(s), memory[v].get()});
  }
  std::vector<double> scalars;
  for (const graph::Id param : lowered.scalars) scalars.push_back(settings.params.at(static_cast<size_t>(param)));
  device.run_options() = {settings.checker, settings.random_order != 0, settings.random_order};
  try {
    if (!lowered.program.calls.empty())
      runtime::LoadedProgram::load(device, executable)->launch(stream, bindings, scalars);
    device.synchronize();
  } catch (...) {
    device.run_options() = {};
    throw;
  }
  device.run_options() = {};

  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Kind kind = plan.homes[v].kind;
    if (!settings.compare || (kind != Kind::output && kind != Kind::replaces)) continue;
    const graph::Value& value = graph.values[v];
    const layout::HostView own{for_test::numbers(value.sizes), for_test::numbers(value.strides), 0};
    layout::HostView view = own;
    size_t place = v;
    if (kind == Kind::replaces) {
      const graph::Ref& through = plan.homes[v].through;
      place = static_cast<size_t>(through.value);
      view = {for_test::numbers(through.sizes), for_test::numbers(through.strides), through.offset.constant().value()};
    }
    if (own.numel() == 0) continue;
    if (!memory[place]) return fmt::format("value {} ({}) is in no memory that the program names", v, value.name);
    const base::Format format = plan.homes[place].geometry.format;
    const auto bytes = static_cast<size_t>(base::format_bytes(format));
    std::vector<std::byte> got(static_cast<size_t>(own.numel()) * bytes);
    runtime::gather(runtime::device_side(contents(place), value.type, view), got.data());
    std::vector<int64_t> index(own.sizes.size(), 0);
    for (int64_t i = 0; i < own.numel(); ++i) {
      size_t element = 0;
      for (size_t d = 0; d < index.size(); ++d) element += static_cast<size_t>(index[d] * own.strides[d]);
      const double have = for_test::decode(format, got.data() + static_cast<size_t>(i) * bytes);
      if (!graph::agrees(expected[v], element, format, have)) {
        std::string at;
        for (const int64_t x : index) at += (at.empty() ? "" : ", ") + std::to_string(x);
        return fmt::format("value {} ({}) [{}]: {} instead of {} (tolerance {})", v, value.name, at, have,
                           expected[v].value[element], graph::tolerance(expected[v], element, format));
      }
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < own.sizes[d]) break;
        index[d] = 0;
      }
    }
  }
  return {};
}

/// Fails the test, printing seed, graph, plan and program, unless every output of the plan's program is the
/// interpreter's within graph::tolerance.
inline void expect_runs_like_interpreter(const graph::Graph& graph, const plan::Plan& plan,
                                         const RunSettings& settings = {}) {
  std::string what;
  try {
    what = first_difference(graph, plan, settings);
  } catch (const Error& e) {
    if (e.fault() == Fault::out_of_memory) return;  // a scrambled layout that the small test card has no room for
    what = fmt::format("{}: {}", fault_name(e.fault()), e.what());
  }
  if (what.empty()) return;
  std::string text;
  try {
    text = program::print(lower(graph, plan, for_test::test_device().description()).program);
  } catch (const Error& e) {
    text = e.what();
  }
  ADD_FAILURE() << what << "\nseed " << settings.seed << " random order " << settings.random_order << "\n"
                << graph::print(graph) << for_test::describe(plan) << text.substr(0, 12'000);
}

}  // namespace spyre::lower
