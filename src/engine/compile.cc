#include "engine/compile.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "engine/options.h"
#include "plan/axes.h"

namespace spyre::engine {

namespace {

using graph::at;
using graph::Graph;
using graph::Id;
using graph::Ref;

std::function<void(lower::Lowered&)> lowered_hook;

void add(base::Hasher& hasher, const std::vector<int64_t>& numbers) {
  hasher.add(static_cast<uint64_t>(numbers.size()));
  for (int64_t n : numbers) hasher.add(static_cast<uint64_t>(n));
}

void add(base::Hasher& hasher, const layout::Geometry& g) {
  hasher.add(static_cast<uint64_t>(g.format)).add(static_cast<uint64_t>(g.storage_elements));
  hasher.add(static_cast<uint64_t>(g.device_elements)).add(static_cast<uint64_t>(g.digits.size()));
  for (const layout::Digit& d : g.digits)
    for (int64_t n : {d.div1, d.mod1, d.div2, d.mod2, d.stride}) hasher.add(static_cast<uint64_t>(n));
}

/// Strides of dimensions of one index say nothing.
bool fits(const graph::Value& value, const layout::HostView& view) {
  if (view.sizes != plan::numbers(value.sizes)) return false;
  if (view.empty()) return true;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    if (view.sizes[d] != 1 && view.strides[d] != *value.strides[d].constant()) return false;
  return true;
}

void check_input(const Graph& instance, size_t position, const Situation::Input& input) {
  const graph::Value& value = instance.values[at(instance.inputs[position])];
  if (input.view.sizes.size() != input.view.strides.size() || !fits(value, input.view))
    fail(Fault::user,
         "input {} ({}) of a compiled graph is a tensor of sizes [{}] and strides [{}], but the graph was made for "
         "sizes [{}] and strides [{}]",
         position, value.name, fmt::join(input.view.sizes, ", "), fmt::join(input.view.strides, ", "),
         fmt::join(plan::numbers(value.sizes), ", "), fmt::join(plan::numbers(value.strides), ", "));
  if (input.view.empty()) return;
  input.view.check();
  if (input.view.extent().second > input.geometry.storage_elements)
    fail(Fault::user, "input {} ({}): {} leaves its memory, which has {} elements", position, value.name,
         input.view.to_text(), input.geometry.storage_elements);
}

/// Every reference to an input starts where its tensor does in its memory; inputs that are one tensor are one value.
void place_inputs(Graph& instance, const Situation& situation) {
  std::vector<int64_t> offset(instance.values.size(), 0);
  std::vector<Id> stands_for(instance.values.size());
  for (size_t v = 0; v < stands_for.size(); ++v) stands_for[v] = static_cast<Id>(v);
  std::vector<bool> changed(instance.values.size(), false);
  for (const Graph::Mutation& m : instance.mutations) changed[at(m.input)] = true;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const Id id = instance.inputs[i];
    offset[at(id)] = situation.inputs[i].view.offset;
    if (situation.inputs[i].same_as < 0) continue;
    const Id first = stands_for[at(instance.inputs[at(situation.inputs[i].same_as)])];
    // Two new contents for one tensor: the launch orders them, as different tensors.
    if (changed[at(id)] && changed[at(first)]) continue;
    if (instance.values[at(id)].type != instance.values[at(first)].type) continue;
    stands_for[at(id)] = first;
    changed[at(first)] = changed[at(first)] || changed[at(id)];
  }
  const auto place = [&](Ref& ref) {
    ref.value = stands_for[at(ref.value)];
    if (offset[at(ref.value)] != 0) ref.offset = ref.offset + graph::Size(offset[at(ref.value)]);
  };
  for (graph::Node& node : instance.nodes)
    for (Ref* ref : graph::reads(node.kind)) place(*ref);
  for (Graph::Mutation& m : instance.mutations) {
    place(m.value);
    m.input = stands_for[at(m.input)];
  }
}

int32_t position(std::span<const Id> list, Id id) {
  const auto found = std::find(list.begin(), list.end(), id);
  return found == list.end() ? -1 : static_cast<int32_t>(found - list.begin());
}

Artifact artifact_of(const plan::Prepared& prepared, const plan::Plan& plan, lower::Lowered& lowered,
                     const device::Description& description) {
  using Kind = Artifact::Source::Kind;
  const Graph& g = prepared.graph;
  std::vector<Id> outputs;
  for (const Ref& ref : g.outputs) outputs.push_back(ref.value);
  Artifact a;
  for (size_t s = 0; s < lowered.symbols.size(); ++s) {
    const lower::Lowered::Source& from = lowered.symbols[s];
    Artifact::Source source;
    if (lowered.program.symbols.at(s).direction == program::Direction::temp) {
      source.kind = Kind::temp;
    } else if (from.value == graph::none) {
      source = {Kind::repack, from.repack};
    } else {
      Id value = from.value;
      const plan::Home& home = plan.homes.at(at(value));
      if (home.kind == plan::Home::Kind::replaces) value = home.through.value;
      source = {Kind::input, position(g.inputs, value)};
      if (source.index < 0) source = {Kind::output, position(outputs, value)};
    }
    a.symbols.push_back(source);
  }
  a.scalars.assign(lowered.scalars.begin(), lowered.scalars.end());
  for (const plan::Repack& repack : plan.repacks) {
    const Ref read = *graph::reads(g.nodes.at(at(repack.node)).kind).at(static_cast<size_t>(repack.read));
    const Ref from = plan::resolve(read, g, plan.homes);
    a.repacks.push_back({position(g.inputs, from.value), g.values.at(at(from.value)).type,
                         lower::lower_repack(g, repack, plan, description)});
  }
  a.plan = plan::print(plan, g);
  a.program = lowered.program;
  check(a, g.inputs.size(), outputs.size(), g.params.size());
  return a;
}

}  // namespace

base::Hash128 Situation::hash() const {
  base::Hasher hasher(3);
  add(hasher, symbols);
  hasher.add(static_cast<uint64_t>(inputs.size()));
  for (const Input& input : inputs) {
    add(hasher, input.view.sizes);
    add(hasher, input.view.strides);
    hasher.add(static_cast<uint64_t>(input.view.offset)).add(static_cast<uint64_t>(input.same_as + 1));
    add(hasher, input.geometry);
  }
  hasher.add(static_cast<uint64_t>(outputs.size()));
  for (const layout::Geometry& g : outputs) add(hasher, g);
  return hasher.finish();
}

Compiled compile(const Graph& graph, const Situation& situation, const device::Description& description) {
  if (situation.inputs.size() != graph.inputs.size() || situation.outputs.size() != graph.outputs.size())
    fail(Fault::user, "a graph of {} inputs and {} outputs is launched with {} and {} tensors", graph.inputs.size(),
         graph.outputs.size(), situation.inputs.size(), situation.outputs.size());
  Graph instance = graph::instantiate(graph, situation.symbols);
  std::vector<layout::Geometry> geometries;
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < situation.inputs.size(); ++i) {
    check_input(instance, i, situation.inputs[i]);
    geometries.push_back(situation.inputs[i].geometry);
    offsets.push_back(situation.inputs[i].view.offset);
  }
  place_inputs(instance, situation);

  Compiled out;
  out.prepared = plan::prepare(std::move(instance));
  out.prepared.offsets = std::move(offsets);
  out.prepared.outputs = situation.outputs;
  std::string why;
  plan::Options wishes;
  wishes.random_seed = options().plan_seed;
  wishes.repack = options().repack;
  wishes.ieee = options().ieee;
  wishes.why = &why;
  const Graph& g = out.prepared.graph;
  out.plan = plan::choose(
      out.prepared, geometries, description,
      [&](const plan::KernelPlan& kernel, const plan::Plan& plan) {
        return lower::price(g, kernel, plan, description, &why);
      },
      wishes);
  out.lowered = lower::lower(g, out.plan, description);
  if (lowered_hook) lowered_hook(out.lowered);
  out.artifact = artifact_of(out.prepared, out.plan, out.lowered, description);
  return out;
}

void set_lowered_hook(std::function<void(lower::Lowered&)> hook) { lowered_hook = std::move(hook); }

}  // namespace spyre::engine
