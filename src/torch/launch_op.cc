// torch.ops.spyre.launch and launch_mut: a compiled graph runs on tensors.
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <atomic>
#include <fstream>
#include <map>

#include "torch/copy.h"
#include "torch/graph_types.h"
#include "torch/programs.h"
#include "torch/records.h"
#include "torch/state.h"

namespace spyre::torch {
namespace {

using at::Tensor;
using Source = Program::Source;

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Program>, std::less<>> programs;  // found by a view: no text is copied
};
// Never destroyed: a launch may come late.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

struct Recorder {
  std::atomic<bool> active{false};
  std::mutex mutex;  // all below
  std::string trace_path;
  std::vector<LaunchRecord> launches;
};
Recorder& recorder() {
  static auto* const one = new Recorder;
  return *one;
}

/// A tensor as the executor takes it; vectors keep their memory from launch to launch.
void set_argument(engine::TensorArg& arg, const Tensor& t) {
  const at::IntArrayRef sizes = t.sizes(), strides = t.strides();
  arg.view.sizes.assign(sizes.begin(), sizes.end());
  arg.view.strides.assign(strides.begin(), strides.end());
  arg.view.offset = 0;
  arg.allocation = nullptr;
  if (t.numel() == 0) return;
  runtime::Allocation& allocation = typed_allocation(t);
  arg.allocation = &allocation;
  arg.view.offset = first_element(t, allocation);
}

/// A CPU tensor on the device. float64 numbers become float32: the device has no others.
Tensor upload(const Tensor& t, c10::Device device) {
  TORCH_CHECK(t.is_cpu(), "a compiled graph of ", device, " is given a tensor on ", t.device(),
              ": move it to the device or to the CPU");
  const Tensor host = t.scalar_type() == at::kDouble && t.dim() == 0 ? t.to(at::kFloat) : t;
  Tensor made = new_tensor(host.sizes(), host.strides(), host.scalar_type(), device);
  copy_from(host, made, false);
  return made;
}

const Tensor& constant_on(Program& program, size_t which, c10::Device device) {
  const auto index = static_cast<size_t>(device.index());
  const std::lock_guard lock(program.mutex);
  if (program.uploaded.size() <= index) program.uploaded.resize(index + 1);
  std::vector<Tensor>& on = program.uploaded[index];
  if (on.empty())
    for (const Tensor& t : program.constants) on.push_back(upload(t, device));
  return on[which];
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  TORCH_CHECK(file.good(), "can't write ", path);
}

using Args = std::vector<engine::TensorArg>;

void dump(Program& program, const std::vector<int64_t>& symbols, const Args& inputs, const Args& outputs,
          runtime::Device& device) {
  std::string path;
  {
    const std::lock_guard lock(program.mutex);
    if (program.dump_path.empty() || !program.dumped.insert(symbols).second) return;
    path = program.dump_path;
    for (const int64_t s : symbols) path += "_" + std::to_string(s);
  }
  const auto description = program.executor->describe(device, symbols, inputs, outputs, {}, path + "_trace.json");
  write_text(path + "_plan.txt", description.plan);
  write_text(path + "_program.tile", description.program);
}

void record(std::string_view key, const Program& program, const std::vector<int64_t>& symbols, const Args& inputs,
            const Args& outputs, runtime::Device& device) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  std::string trace = r.trace_path;
  if (!trace.empty()) trace += "_" + std::to_string(r.launches.size()) + ".json";
  r.launches.push_back(
      {std::string(key), symbols, program.executor->describe(device, symbols, inputs, outputs, {}, trace)});
}

std::vector<Tensor> run(at::TensorList inputs, at::TensorList mutated, at::IntArrayRef symbols, int64_t device_index,
                        std::string_view key) {
  Program& program = find_program(key);
  const c10::Device device = complete(c10::Device(device_type, static_cast<c10::DeviceIndex>(device_index)));
  thread_local Args in, out;
  std::vector<Tensor> uploaded;  // live until the launch is enqueued
  in.resize(program.sources.size());
  for (size_t i = 0; i < program.sources.size(); ++i) {
    const auto [source, at] = program.sources[i];
    const at::TensorList& given = source == Source::mutated ? mutated : inputs;
    TORCH_CHECK(source == Source::constant || at < given.size(), "a compiled graph needs more tensors than the ",
                inputs.size() + mutated.size(), " that it is given");
    const Tensor& t = source == Source::constant ? constant_on(program, at, device) : given[at];
    if (t.is_privateuseone()) {
      TORCH_CHECK(t.device() == device, "a compiled graph of ", device, " is given a tensor on ", t.device());
      set_argument(in[i], t);
    } else {
      TORCH_CHECK(source != Source::mutated, "a compiled graph writes a tensor on ", t.device());
      uploaded.push_back(upload(t, device));
      set_argument(in[i], uploaded.back());
    }
  }
  std::vector<Tensor> results;
  translated([&] {
    const std::span<const int64_t> values(symbols.data(), symbols.size());
    const auto specs = program.executor->output_specs(values);
    results.reserve(specs->size());
    out.resize(specs->size());
    for (size_t i = 0; i < specs->size(); ++i) {
      const engine::Executor::OutputSpec& spec = (*specs)[i];
      results.push_back(new_tensor(spec.sizes, spec.strides, scalar_type(spec.type), device));
      set_argument(out[i], results.back());
    }
    runtime::Stream& stream = current_stream(device.index());
    program.executor->run(stream, values, in, out, {});
    if (!program.dump_path.empty()) dump(program, symbols.vec(), in, out, stream.device());
    if (recorder().active.load(std::memory_order_relaxed))
      record(key, program, symbols.vec(), in, out, stream.device());
  });
  return results;
}

std::vector<Tensor> launch(at::TensorList inputs, at::IntArrayRef symbols, int64_t device, std::string_view program) {
  return run(inputs, {}, symbols, device, program);
}

std::vector<Tensor> launch_mut(at::TensorList inputs, at::TensorList mutated, at::IntArrayRef symbols, int64_t device,
                               std::string_view program) {
  return run(inputs, mutated, symbols, device, program);
}

void never_functionalized(const c10::OperatorHandle& op, c10::DispatchKeySet, ::torch::jit::Stack*) {
  TORCH_CHECK(false, op.schema().name(), " is made behind functionalization and can't be functionalized again");
}

}  // namespace

void define_program(const std::string& key, const std::string& text, std::vector<std::pair<Source, size_t>> sources,
                    std::vector<Tensor> constants) {
  auto program = std::make_unique<Program>();
  program->executor = translated([&] { return engine::executor(graph::parse(text)); });
  TORCH_CHECK(program->executor->graph().inputs.size() == sources.size(), "a graph with ",
              program->executor->graph().inputs.size(), " inputs is given ", sources.size());
  for (const auto& [source, at] : sources)
    TORCH_CHECK(source != Source::constant || at < constants.size(), "a program lacks constant ", at);
  program->sources = std::move(sources);
  program->constants = std::move(constants);
  const std::lock_guard lock(registry().mutex);
  registry().programs.try_emplace(key, std::move(program));
}

Program& find_program(std::string_view key) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().programs.find(key);
  TORCH_CHECK(found != registry().programs.end(), "no compiled graph ", std::string(key),
              " is known in this process: launch ops belong to the code that Inductor generated with them");
  return *found->second;
}

void record_launches(const std::string& trace_path) {
  Recorder& r = recorder();
  const std::lock_guard lock(r.mutex);
  r.trace_path = trace_path;
  r.launches.clear();
  r.active.store(true);
}

std::vector<LaunchRecord> take_launches() {
  Recorder& r = recorder();
  r.active.store(false);
  const std::lock_guard lock(r.mutex);
  return std::exchange(r.launches, {});
}

}  // namespace spyre::torch

// `program` is a key (torch_spyre/_inductor/programs.py). The order and strides of its tensors are the graph's.
TORCH_LIBRARY_FRAGMENT(spyre, m) {
  const std::vector<at::Tag> tags{at::Tag::flexible_layout, at::Tag::pt2_compliant_tag};
  m.def("launch(Tensor[] inputs, SymInt[] symbols, int device, str program) -> Tensor[]", tags);
  m.def("launch_mut(Tensor[] inputs, Tensor(a!)[] mutated, SymInt[] symbols, int device, str program) -> Tensor[]",
        tags);
}

TORCH_LIBRARY_IMPL(spyre, PrivateUse1, m) {
  m.impl("launch", spyre::torch::launch);
  m.impl("launch_mut", spyre::torch::launch_mut);
}

// A graph without tensor inputs, or with CPU tensors only, comes here.
TORCH_LIBRARY_IMPL(spyre, CompositeExplicitAutograd, m) {
  m.impl("launch", spyre::torch::launch);
  m.impl("launch_mut", spyre::torch::launch_mut);
}

// Inductor takes a mutating op only with a kernel here.
TORCH_LIBRARY_IMPL(spyre, Functionalize, m) {
  m.impl("launch_mut", ::torch::CppFunction::makeFromBoxedFunction<&spyre::torch::never_functionalized>());
}
