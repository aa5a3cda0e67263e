// The bodies of launch_for_test.h, compiled once.
#include <filesystem>

#include "engine/launch_for_test.h"

namespace spyre::engine {

using graph::at;
using lower::for_test::decode;
using lower::for_test::encode;
using lower::for_test::numbers;
using lower::for_test::storage_elements;

namespace {

std::string new_directory() {
  std::random_device random;
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("spyre_engine_{:08x}{:08x}", random(), random());
  std::filesystem::create_directories(path);
  return path.string();
}

runtime::Contents contents(runtime::Allocation& a) {
  return runtime::contents_of(a.device(), a.state(), a.logical_bytes());
}

void poison(runtime::Allocation& a) {
  const runtime::Contents c = contents(a);
  if (c.device_bytes() > 0) std::memset(c.bytes, 0xff, static_cast<size_t>(c.device_bytes()));
}

std::vector<double> elements(runtime::Allocation& a, const layout::HostView& view) {
  const runtime::Contents c = contents(a);
  const base::Format format = c.placement->geometry.format;
  const auto width = static_cast<size_t>(base::format_bytes(format));
  std::vector<std::byte> bytes(static_cast<size_t>(view.numel()) * width);
  runtime::gather(runtime::device_side(c, c.placement->type, view), bytes.data());
  std::vector<double> out;
  for (size_t i = 0; i < static_cast<size_t>(view.numel()); ++i)
    out.push_back(decode(format, bytes.data() + i * width));
  return out;
}

/// Storage elements of a view in row-major order.
std::vector<int64_t> places(const layout::HostView& view) {
  std::vector<int64_t> out, index(view.sizes.size(), 0);
  const int64_t n = view.numel();
  for (int64_t i = 0; i < n; ++i) {
    int64_t place = view.offset;
    for (size_t d = 0; d < index.size(); ++d) place += index[d] * view.strides[d];
    out.push_back(place);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < view.sizes[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

std::string compare(const std::string& what, const std::vector<double>& got, const graph::Tensor& wanted,
                    const std::vector<int64_t>& wanted_places, base::Format format) {
  for (size_t i = 0; i < got.size(); ++i) {
    const auto place = static_cast<size_t>(wanted_places[i]);
    if (!graph::agrees(wanted, place, format, got[i]))
      return fmt::format("{}: element {} is {} instead of {} (tolerance {})", what, i, got[i], wanted.value.at(place),
                         graph::tolerance(wanted, place, format));
  }
  return {};
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() : path(new_directory()) {}
TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Never destroyed: executors hold programs in them.
runtime::Device& plain_device() {
  static auto* const device = [] {
    const runtime::LayoutOption option(nullptr);
    return new runtime::Device(0, runtime::small_description());
  }();
  return *device;
}
runtime::Device& scrambled_device() {
  static auto* const device = [] {
    const runtime::LayoutOption option("scramble");
    return new runtime::Device(1, runtime::small_description());
  }();
  return *device;
}

LaunchTensors make_tensors(const Executor& executor, runtime::Device& device, const std::vector<int64_t>& symbols,
                           const LaunchSettings& settings) {
  runtime::Stream& stream = settings.stream ? *settings.stream : device.default_stream();
  const graph::Graph g = graph::instantiate(executor.graph(), symbols);
  std::mt19937_64 random(settings.seed);
  struct Memory {
    int64_t elements = 0;
    graph::Id value = graph::none;
    int uses = 0;
    bool whole = true;
  };
  std::map<int, Memory> memories;
  const auto memory_of = [&](size_t i) { return settings.memory.empty() ? static_cast<int>(i) : settings.memory[i]; };
  const auto offset_of = [&](size_t i) { return settings.offsets.empty() ? int64_t{0} : settings.offsets[i]; };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    Memory& m = memories[memory_of(i)];
    const graph::Value& v = g.values[at(g.inputs[i])];
    m.elements = std::max(m.elements, offset_of(i) + storage_elements(v) + (offset_of(i) > 0 ? 3 : 0));
    m.value = g.inputs[i];
    m.whole = m.whole && ++m.uses == 1 && offset_of(i) == 0;
  }
  LaunchTensors t;
  for (auto& [number, m] : memories) {
    const graph::Value& v = g.values[at(m.value)];
    const auto placement = m.whole ? runtime::Placement::of(numbers(v.sizes), numbers(v.strides), v.type, false)
                                   : runtime::Placement::of({m.elements}, {1}, v.type, false);
    const auto index = static_cast<size_t>(number);
    if (t.memory.size() <= index) t.memory.resize(index + 1), t.contents.resize(index + 1);
    auto& allocation = t.memory[index] =
        device.allocator().allocate_typed(m.elements * base::host_bytes(v.type), stream, placement);
    device.synchronize();
    poison(*allocation);
    const base::Format format = allocation->placement()->geometry.format;
    const auto width = static_cast<size_t>(base::format_bytes(format));
    std::vector<std::byte> bytes(static_cast<size_t>(m.elements) * width);
    for (int64_t e = 0; e < m.elements; ++e) {
      std::byte* const place = bytes.data() + static_cast<size_t>(e) * width;
      encode(format, settings.fill ? settings.fill(g, m.value, random) : lower::default_fill(g, m.value, random),
             place);
      t.contents[index].push_back(decode(format, place));
    }
    if (m.elements > 0)
      runtime::scatter(bytes.data(), runtime::device_side(contents(*allocation), v.type, {{m.elements}, {1}, 0}));
    allocation->bump_generation();
  }
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    const graph::Value& v = g.values[at(g.inputs[i])];
    t.inputs.push_back(
        {t.memory[static_cast<size_t>(memory_of(i))].get(), {numbers(v.sizes), numbers(v.strides), offset_of(i)}});
    if (storage_elements(v) == 0) t.inputs.back().allocation = nullptr;
  }
  for (const Executor::OutputSpec& spec : *executor.output_specs(symbols)) {
    const layout::HostView view{spec.sizes, spec.strides, 0};
    t.outputs.push_back({nullptr, view});
    t.output_memory.push_back(nullptr);
    if (view.numel() == 0) continue;
    t.output_memory.back() =
        device.allocator().allocate_typed(view.extent().second * base::host_bytes(spec.type), stream,
                                          runtime::Placement::of(spec.sizes, spec.strides, spec.type, false));
    device.synchronize();
    poison(*t.output_memory.back());
    t.outputs.back().allocation = t.output_memory.back().get();
  }
  return t;
}

std::string difference(const Executor& executor, const std::vector<int64_t>& symbols, const LaunchTensors& t,
                       const LaunchSettings& settings) {
  const graph::Graph g = graph::instantiate(executor.graph(), symbols);
  std::vector<graph::Tensor> inputs;
  std::vector<size_t> memory;
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    memory.push_back(static_cast<size_t>(settings.memory.empty() ? static_cast<int>(i) : settings.memory[i]));
    const auto& all = t.contents[memory.back()];
    inputs.push_back(
        {{all.begin() + std::min<int64_t>(t.inputs[i].view.offset, static_cast<int64_t>(all.size())), all.end()}, {}});
  }
  const std::vector<graph::Tensor> wanted = graph::interpret(g, inputs, settings.params);
  for (size_t o = 0; o < t.outputs.size(); ++o) {
    if (!t.outputs[o].allocation) continue;
    const graph::Value& v = g.values[at(g.outputs[o].value)];
    const layout::HostView view{numbers(v.sizes), numbers(v.strides), 0};
    std::string text =
        compare(fmt::format("output {} ({})", o, v.name), elements(*t.outputs[o].allocation, view),
                wanted[at(g.outputs[o].value)], places(view), t.outputs[o].allocation->placement()->geometry.format);
    if (!text.empty()) return text;
  }
  std::vector<std::vector<bool>> written;
  for (const auto& all : t.contents) written.emplace_back(all.size(), false);
  for (const graph::Graph::Mutation& m : g.mutations) {
    const auto i = static_cast<size_t>(std::find(g.inputs.begin(), g.inputs.end(), m.input) - g.inputs.begin());
    if (!t.inputs[i].allocation) continue;
    for (int64_t place : places(t.inputs[i].view)) written[memory[i]][static_cast<size_t>(place)] = true;
    const layout::HostView from{numbers(m.value.sizes), numbers(m.value.strides), *m.value.offset.constant()};
    std::string text =
        compare(fmt::format("input {} after it was changed", i), elements(*t.inputs[i].allocation, t.inputs[i].view),
                wanted[at(m.value.value)], places(from), t.inputs[i].allocation->placement()->geometry.format);
    if (!text.empty()) return text;
  }
  for (size_t n = 0; n < t.memory.size(); ++n) {
    if (!t.memory[n] || t.contents[n].empty()) continue;
    const auto now = elements(*t.memory[n], {{static_cast<int64_t>(t.contents[n].size())}, {1}, 0});
    for (size_t e = 0; e < now.size(); ++e)
      if (!written[n][e] && now[e] != t.contents[n][e] && !std::isnan(t.contents[n][e]))
        return fmt::format("memory {}: element {} was {} and is {}, which nothing should change", n, e,
                           t.contents[n][e], now[e]);
  }
  return {};
}

void expect_right(Executor& executor, runtime::Device& device, const std::vector<int64_t>& symbols,
                  const LaunchSettings& settings) {
  runtime::Stream& stream = settings.stream ? *settings.stream : device.default_stream();
  std::string what;
  try {
    const LaunchTensors t = make_tensors(executor, device, symbols, settings);
    executor.run(stream, symbols, t.inputs, t.outputs, settings.params);
    device.synchronize();
    what = difference(executor, symbols, t, settings);
    if (what.empty()) return;
    const auto d = executor.describe(device, symbols, t.inputs, t.outputs, settings.params);
    what += "\n" + d.plan + d.program.substr(0, 8000);
  } catch (const Error& e) {
    what = fmt::format("{}: {}", fault_name(e.fault()), e.what());
  }
  ADD_FAILURE() << what << "\nseed " << settings.seed << "\n" << graph::print(executor.graph()).substr(0, 6000);
}

void expect_right(const std::string& graph_text, const LaunchSettings& settings) {
  for (runtime::Device* device : {&plain_device(), &scrambled_device()}) {
    Executor executor(graph::parse(graph_text));
    expect_right(executor, *device, {}, settings);
  }
}

}  // namespace spyre::engine
