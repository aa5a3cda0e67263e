#include "engine/situation_key.h"

#include <algorithm>

#include "base/error.h"
#include "engine/options.h"
#include "runtime/devices.h"

namespace spyre::engine {

namespace {

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15;
  return hash ^ hash >> 29;
}

void check_tensor(const TensorArg& tensor, const runtime::PlacementPtr& placement, const runtime::Device& device,
                  base::HostType type, const char* what, size_t position, const std::string& name) {
  if (!tensor.allocation) {
    if (tensor.view.empty()) return;
    fail(Fault::user, "{} {} ({}) of a compiled graph has elements but no memory", what, position, name);
  }
  if (&tensor.allocation->device() != &device)
    fail(Fault::user, "{} {} ({}) of a compiled graph is on device {}, the launch on device {}", what, position, name,
         tensor.allocation->device().index(), device.index());
  if (tensor.view.empty()) return;
  if (!placement)
    fail(Fault::user, "{} {} ({}) of a compiled graph holds raw bytes; give it a dtype first", what, position, name);
  if (placement->type != type)
    fail(Fault::user, "{} {} ({}) of a compiled graph is memory of {}, the graph was made for {}", what, position, name,
         base::host_name(placement->type), base::host_name(type));
}

}  // namespace

void SituationKey::gather(const graph::Graph& graph, const runtime::Device& device, std::span<const int64_t> symbols,
                          std::span<const TensorArg> inputs, std::span<const TensorArg> outputs, bool merge) {
  if (inputs.size() != graph.inputs.size() || outputs.size() != graph.outputs.size())
    fail(Fault::user, "a graph of {} inputs and {} outputs is launched with {} and {} tensors", graph.inputs.size(),
         graph.outputs.size(), inputs.size(), outputs.size());
  words_.clear();
  placements_.clear();
  same_as_.assign(inputs.size(), -1);
  words_.push_back(reinterpret_cast<uintptr_t>(&device));
  for (int64_t s : symbols) words_.push_back(static_cast<uint64_t>(s));
  const auto add = [&](const TensorArg& tensor, graph::Id value, const char* what, size_t position) {
    runtime::PlacementPtr placement = tensor.allocation ? tensor.allocation->placement() : nullptr;
    const graph::Value& v = graph.values[static_cast<size_t>(value)];
    check_tensor(tensor, placement, device, v.type, what, position, v.name);
    words_.push_back(reinterpret_cast<uintptr_t>(placement.get()));
    words_.push_back(static_cast<uint64_t>(tensor.view.offset));
    words_.push_back(tensor.view.sizes.size() << 32 | tensor.view.strides.size());
    for (int64_t n : tensor.view.sizes) words_.push_back(static_cast<uint64_t>(n));
    for (int64_t n : tensor.view.strides) words_.push_back(static_cast<uint64_t>(n));
    placements_.push_back(std::move(placement));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    add(inputs[i], graph.inputs[i], "input", i);
    for (size_t j = 0; merge && j < i && same_as_[i] < 0; ++j)
      if (inputs[i].allocation && inputs[i].allocation == inputs[j].allocation && inputs[i].view == inputs[j].view)
        same_as_[i] = static_cast<int32_t>(j);
    words_.push_back(static_cast<uint64_t>(same_as_[i] + 1));
  }
  for (size_t i = 0; i < outputs.size(); ++i) add(outputs[i], graph.outputs[i].value, "output", i);
  hash_ = words_.size();
  for (uint64_t word : words_) hash_ = mixed(hash_, word);
}

Situation SituationKey::situation(const graph::Graph& graph, std::span<const int64_t> symbols,
                                  std::span<const TensorArg> inputs, std::span<const TensorArg> outputs) const {
  Situation s;
  s.symbols.assign(symbols.begin(), symbols.end());
  const auto geometry = [&](const TensorArg& tensor, graph::Id value, size_t position) {
    if (const runtime::PlacementPtr& placement = placements_[position]) return placement->geometry;
    return layout::default_placement(tensor.view.sizes, tensor.view.strides,
                                     graph.values[static_cast<size_t>(value)].type, options().ieee)
        .geometry;
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    s.inputs.push_back({inputs[i].view, geometry(inputs[i], graph.inputs[i], i), same_as_[i]});
  for (size_t i = 0; i < outputs.size(); ++i)
    s.outputs.push_back(geometry(outputs[i], graph.outputs[i].value, inputs.size() + i));
  return s;
}

}  // namespace spyre::engine
