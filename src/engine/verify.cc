#include "engine/verify.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "base/error.h"
#include "card/elements.h"
#include "graph/interpreter.h"
#include "graph/walk.h"
#include "plan/axes.h"
#include "runtime/elements.h"
#include "runtime/transitions.h"

namespace spyre::engine {

namespace {

using graph::at;
using graph::Graph;
using graph::Id;
using graph::none;
using HomeKind = plan::Home::Kind;

/// The elements of a view of an allocation, in row-major order.
std::vector<double> elements(runtime::Allocation& allocation, const layout::HostView& view) {
  const auto contents = runtime::contents_of(allocation.device(), allocation.state(), allocation.logical_bytes());
  const base::Format format = contents.placement->geometry.format;
  const auto width = static_cast<size_t>(base::format_bytes(format));
  std::vector<std::byte> bytes(static_cast<size_t>(view.numel()) * width);
  runtime::gather(runtime::device_side(contents, contents.placement->type, view), bytes.data());
  if (!card::is_float(format)) {
    std::vector<int32_t> lanes(static_cast<size_t>(view.numel()));
    card::load_i32(bytes.data(), format, 1, lanes.data(), view.numel());
    return {lanes.begin(), lanes.end()};
  }
  std::vector<float> lanes(static_cast<size_t>(view.numel()));
  card::load_f32(bytes.data(), format, 1, lanes.data(), view.numel());
  return {lanes.begin(), lanes.end()};
}

layout::HostView view_of(const graph::Ref& ref) {
  return {plan::numbers(ref.sizes), plan::numbers(ref.strides), *ref.offset.constant()};
}

class Verifier {
 public:
  Verifier(const Compiled& compiled, runtime::Stream& stream, std::span<const TensorArg> inputs,
           std::span<const TensorArg> outputs, std::span<const double> params)
      : c_(compiled), g_(compiled.prepared.graph), stream_(stream), params_(params), memory_(g_.values.size()) {
    for (size_t i = 0; i < inputs.size(); ++i) memory_[at(g_.inputs[i])] = inputs[i].allocation;
    for (size_t i = 0; i < outputs.size(); ++i) memory_[at(g_.outputs[i].value)] = outputs[i].allocation;
  }

  void run(Instance& instance, const std::vector<runtime::Binding>& bindings) {
    const program::Program& program = instance.executable().program();
    bound_.assign(program.symbols.size(), nullptr);
    for (const runtime::Binding& b : bindings) bound_[at(b.symbol)] = b.allocation;
    for (size_t s = 0; s < bound_.size(); ++s)
      if (!bound_[s]) bound_[s] = temporary(program.symbols[s]);
    keep_old_contents(instance);
    size_t call = 0;
    for (const plan::KernelPlan& kernel : c_.plan.kernels) {
      // The kernel alone tells which values the formals of its calls are.
      const lower::Lowered alone = lower::lower_kernel(g_, kernel, c_.plan, stream_.device().description());
      const size_t first = call, last = call += alone.program.calls.size();
      if (last > program.calls.size()) fail(Fault::program, "SPYRE_VERIFY: the program has fewer calls than its plan");
      for (size_t c = first; c < last; ++c) {
        const program::Call& mine = alone.program.calls[c - first];
        for (size_t f = 0; f < mine.symbols.size() && f < program.calls[c].symbols.size(); ++f) {
          const Id value = alone.symbols[at(mine.symbols[f])].value;
          if (value != none && !memory_[at(value)]) memory_[at(value)] = bound_[at(program.calls[c].symbols[f])];
          if (value != none && c_.plan.homes[at(value)].kind == HomeKind::temp)
            memory_[at(value)] = bound_[at(program.calls[c].symbols[f])];
        }
      }
      const auto [sub, tensors] = part(kernel);
      launch(program, first, last, instance);
      compare(kernel, sub, tensors);
    }
    if (call != program.calls.size()) fail(Fault::program, "SPYRE_VERIFY: the program has more calls than its plan");
  }

 private:
  runtime::Allocation* temporary(const program::Symbol& symbol) {
    auto placement = std::make_shared<runtime::Placement>();
    placement->type = type_of(symbol.format);
    placement->geometry = symbol.geometry;
    temporaries_.push_back(stream_.device().allocator().allocate_exact(
        symbol.geometry.storage_elements * base::host_bytes(placement->type), stream_, placement));
    return temporaries_.back().get();
  }

  /// One launch reads its inputs before it writes; several must not see what the earlier ones wrote through another
  /// tensor of the same memory.
  void keep_old_contents(const Instance& instance) {
    const std::vector<program::Symbol>& symbols = instance.executable().program().symbols;
    for (size_t s = 0; s < bound_.size(); ++s) {
      if (symbols[s].direction != program::Direction::in) continue;
      bool written = false;
      for (size_t o = 0; o < bound_.size(); ++o)
        written = written || (bound_[o] == bound_[s] && symbols[o].direction != program::Direction::in);
      if (!written) continue;
      temporaries_.push_back(runtime::clone_storage(*bound_[s], stream_));
      const Artifact::Source& source = instance.artifact().symbols[s];
      bound_[s] = temporaries_.back().get();
      if (source.kind == Artifact::Source::Kind::input)
        memory_[at(g_.inputs[static_cast<size_t>(source.index)])] = bound_[s];
    }
  }

  static base::HostType type_of(base::Format format) {
    for (const base::HostType type :
         {base::HostType::f16, base::HostType::f32, base::HostType::i32, base::HostType::u8, base::HostType::i16,
          base::HostType::i8, base::HostType::e4m3, base::HostType::e5m2})
      for (const bool ieee : {false, true})
        if (base::device_format(type, ieee) == format) return type;
    fail(Fault::program, "no type has the format {}", base::format_name(format));
  }

  /// Where a value's elements are in memory: the allocation, and the value index by index in it.
  std::pair<runtime::Allocation*, layout::HostView> place_of(Id value) const {
    const graph::Value& v = g_.values[at(value)];
    const plan::Home& home = c_.plan.homes[at(value)];
    if (home.kind == HomeKind::replaces) return {memory_[at(home.through.value)], view_of(home.through)};
    return {memory_[at(value)], {plan::numbers(v.sizes), plan::numbers(v.strides), 0}};
  }

  /// A kernel's nodes as a graph of their own, with what its inputs hold now. Pure copies that were folded away come
  /// with their readers. Values keep their ids.
  std::pair<Graph, std::vector<graph::Tensor>> part(const plan::KernelPlan& kernel) {
    std::set<Id> nodes(kernel.nodes.begin(), kernel.nodes.end());
    std::vector<Id> open(kernel.nodes.begin(), kernel.nodes.end());
    std::set<Id> inputs;
    while (!open.empty()) {
      const Id n = open.back();
      open.pop_back();
      for (const graph::Ref* ref : graph::reads(g_.nodes[at(n)].kind)) {
        const graph::Value& v = g_.values[at(ref->value)];
        const HomeKind home = c_.plan.homes[at(ref->value)].kind;
        if (v.node != none && nodes.contains(v.node)) continue;
        if (v.node != none && home == HomeKind::folded) {
          nodes.insert(v.node);
          open.push_back(v.node);
        } else {
          inputs.insert(ref->value);
        }
      }
    }
    Graph sub;
    sub.params = g_.params;
    sub.values = g_.values;
    for (graph::Value& v : sub.values) v.node = none;
    for (const Id n : nodes) {
      for (size_t r = 0; r < g_.nodes[at(n)].results.size(); ++r)
        sub.values[at(g_.nodes[at(n)].results[r])].node = static_cast<Id>(sub.nodes.size());
      sub.nodes.push_back(g_.nodes[at(n)]);
    }
    std::vector<graph::Tensor> tensors;
    stream_.synchronize();
    for (const Id id : inputs) {
      graph::Value& v = sub.values[at(id)];
      sub.inputs.push_back(id);
      graph::Tensor tensor;
      const auto [allocation, view] = place_of(id);
      if (g_.values[at(id)].node == none) {
        // References count from the start of the allocation.
        const int64_t n = allocation ? allocation->placement()->geometry.storage_elements : 0;
        v.sizes = {n};
        v.strides = {1};
        if (n > 0) tensor.value = elements(*allocation, {{n}, {1}, 0});
      } else if (allocation) {
        tensor.value = in_storage_order(v, elements(*allocation, view));
      }
      tensors.push_back(std::move(tensor));
    }
    return {std::move(sub), std::move(tensors)};
  }

  /// Row-major elements of a dense value in the order of its storage.
  static std::vector<double> in_storage_order(const graph::Value& value, const std::vector<double>& row_major) {
    std::vector<double> out(row_major.size());
    const std::vector<int64_t> sizes = plan::numbers(value.sizes), strides = plan::numbers(value.strides);
    std::vector<int64_t> index(sizes.size(), 0);
    int64_t place = 0;
    for (double x : row_major) {
      out.at(static_cast<size_t>(place)) = x;
      step(index, place, sizes, strides);
    }
    return out;
  }

  /// The next index in row-major order.
  static void step(std::vector<int64_t>& index, int64_t& place, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides) {
    for (size_t d = index.size(); d-- > 0;) {
      place += strides[d];
      if (++index[d] < sizes[d]) return;
      place -= strides[d] * sizes[d];
      index[d] = 0;
    }
  }

  /// Calls [first, last) as a program whose temps are given from outside.
  void launch(const program::Program& program, size_t first, size_t last, const Instance& instance) {
    if (first == last) return;
    program::Program cut = program;
    cut.calls = {program.calls.begin() + static_cast<std::ptrdiff_t>(first),
                 program.calls.begin() + static_cast<std::ptrdiff_t>(last)};
    std::vector<bool> used(program.symbols.size());
    for (const program::Call& call : cut.calls)
      for (Id s : call.symbols) used[at(s)] = true;
    std::vector<runtime::Binding> bindings;
    for (size_t s = 0; s < cut.symbols.size(); ++s) {
      program::Symbol& symbol = cut.symbols[s];
      // What no call here names is bound all the same, and not touched.
      const bool written = symbol.direction != program::Direction::in;
      symbol.direction = written && used[s] ? program::Direction::inout : program::Direction::in;
      bindings.push_back({static_cast<Id>(s), bound_[s]});
    }
    std::vector<double> scalars;
    for (int32_t param : instance.artifact().scalars) scalars.push_back(params_[static_cast<size_t>(param)]);
    runtime::Device& device = stream_.device();
    const auto executable = std::make_shared<const card::Executable>(std::move(cut), device.description());
    runtime::LoadedProgram::load(device, executable)->launch(stream_, bindings, scalars);
    stream_.synchronize();
  }

  void compare(const plan::KernelPlan& kernel, const Graph& sub, const std::vector<graph::Tensor>& tensors) {
    const std::vector<graph::Tensor> wanted = graph::interpret(sub, tensors, params_);
    for (const Id n : kernel.nodes)
      for (const Id result : g_.nodes[at(n)].results)
        if (plan::in_memory(c_.plan.homes[at(result)].kind)) compare(g_.nodes[at(n)], result, wanted[at(result)]);
  }

  void compare(const graph::Node& node, Id result, const graph::Tensor& wanted) {
    const graph::Value& v = g_.values[at(result)];
    const auto [allocation, view] = place_of(result);
    if (view.numel() == 0) return;
    if (!allocation) fail(Fault::program, "SPYRE_VERIFY: {} is in no memory", v.name);
    const base::Format format = allocation->placement()->geometry.format;
    const std::vector<double> got = elements(*allocation, view);
    const std::vector<int64_t> sizes = plan::numbers(v.sizes), strides = plan::numbers(v.strides);
    std::vector<int64_t> index(sizes.size(), 0);
    int64_t place = 0;
    for (double have : got) {
      const auto i = static_cast<size_t>(place);
      if (!graph::agrees(wanted, i, format, have))
        fail(Fault::program, "SPYRE_VERIFY: {}{}{}: element [{}] of {} ({}) is {}, expected {} within {}", node.loc.op,
             node.loc.source.empty() ? "" : " at ", node.loc.source, fmt::join(index, ", "), v.name,
             graph::shape_text(v.type, v.sizes), have, wanted.value[i], graph::tolerance(wanted, i, format));
      step(index, place, sizes, strides);
    }
  }

  const Compiled& c_;
  const Graph& g_;
  runtime::Stream& stream_;
  const std::span<const double> params_;
  std::vector<runtime::Allocation*> memory_;  // by value: where it is
  std::vector<runtime::Allocation*> bound_;   // by program symbol
  std::vector<runtime::AllocationPtr> temporaries_;
};

}  // namespace

void run_verified(Instance& instance, runtime::Stream& stream, std::span<const TensorArg> inputs,
                  std::span<const TensorArg> outputs, std::span<const double> params) {
  std::vector<runtime::Binding> bindings;
  Instance::Held held;
  instance.bind(*instance.on(stream.device()), stream, inputs, outputs, bindings, held);
  Verifier(*instance.compiled(), stream, inputs, outputs, params).run(instance, bindings);
}

}  // namespace spyre::engine
