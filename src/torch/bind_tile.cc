// torch_spyre._C, the tile-program half: assemble, launch on tensors, time, trace.
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "base/trace_writer.h"
#include "device/description.h"
#include "program/program.h"
#include "runtime/launch.h"
#include "runtime/trace.h"
#include "timing/timeline.h"
#include "torch/bind.h"
#include "torch/records.h"
#include "torch/state.h"

namespace py = pybind11;

namespace spyre::torch {
namespace {

using Tensors = std::map<std::string, at::Tensor>;
using Scalars = std::map<std::string, double>;

const char* direction_name(program::Direction d) {
  constexpr const char* names[] = {"in", "out", "inout", "temp"};
  return names[static_cast<int>(d)];
}

/// A verified program, loaded into each device at its first launch there.
class TileProgram {
 public:
  explicit TileProgram(const std::string& text)
      : executable_(translated([&] {
          return std::make_shared<const card::Executable>(program::assemble(text), device::current_description());
        })) {}

  const program::Program& tree() const { return executable_->program(); }

  void launch(const Tensors& tensors, const Scalars& scalars) {
    const auto& symbols = tree().symbols;
    for (const auto& [name, tensor] : tensors) check_known(name);
    std::vector<runtime::Binding> bindings;
    c10::DeviceIndex index = -1;
    for (size_t id = 0; id < symbols.size(); ++id) {
      if (symbols[id].direction == program::Direction::temp) continue;
      const auto found = tensors.find(symbols[id].name);
      TORCH_CHECK(found != tensors.end(), "the tile program needs a tensor for symbol ", symbols[id].name);
      const at::Tensor& tensor = found->second;
      check_tensor(symbols[id], tensor);
      TORCH_CHECK(index < 0 || index == tensor.device().index(), "tensor ", symbols[id].name, " is on ",
                  tensor.device(), ", others are on spyre:", static_cast<int>(index), ": a launch uses one device");
      index = tensor.device().index();
      bindings.push_back({static_cast<program::Id>(id), &typed_allocation(tensor)});
    }
    TORCH_CHECK(index >= 0, "the tile program has no symbols: nothing says on which device to launch it");
    const std::vector<double> values = ordered(scalars);
    py::gil_scoped_release release;
    translated([&] { loaded(index).launch(current_stream(index), bindings, values); });
  }

  const timing::Timeline& timeline(const Scalars& scalars) const {
    const std::vector<double> values = ordered(scalars);
    return translated([&]() -> const timing::Timeline& { return executable_->timeline(values); });
  }

  void write_trace(const std::string& path, const Scalars& scalars) const {
    const std::vector<double> values = ordered(scalars);
    translated([&] {
      base::TraceWriter trace(path);
      timing::walk(tree(), values, device::current_description(), {.jump = false, .trace = &trace});
      trace.close();
    });
  }

 private:
  void check_known(const std::string& name) const {
    for (const program::Symbol& symbol : tree().symbols) {
      if (symbol.name != name) continue;
      TORCH_CHECK(symbol.direction != program::Direction::temp, "symbol ", name,
                  " is a temp: the launch provides its memory");
      return;
    }
    TORCH_CHECK(false, "the tile program has no symbol ", name);
  }

  static void check_tensor(const program::Symbol& symbol, const at::Tensor& tensor) {
    TORCH_CHECK(tensor.is_privateuseone(), "tensor ", symbol.name, " is on ", tensor.device(),
                ": a tile program takes spyre tensors");
    const layout::HostView& view = symbol.view;
    // Without elements there is no memory to bind, and no program moves nothing.
    TORCH_CHECK(tensor.numel() > 0, "tensor ", symbol.name, " is empty");
    const int64_t first = memory_of(tensor).storage_byte / tensor.element_size() + tensor.storage_offset();
    TORCH_CHECK(tensor.sizes() == at::IntArrayRef(view.sizes) && tensor.strides() == at::IntArrayRef(view.strides) &&
                    first == view.offset,
                "tensor ", symbol.name, " has sizes ", tensor.sizes(), ", strides ", tensor.strides(), " and offset ",
                first, ", the tile program was written for ", view.to_text());
    const base::Format format = base::device_format(host_type(tensor.scalar_type(), 2), ieee_numerics());
    TORCH_CHECK(format == symbol.format, "tensor ", symbol.name, " of ", tensor.dtype(), " is ",
                std::string(base::format_name(format)), " on the device, the tile program was written for ",
                std::string(base::format_name(symbol.format)));
  }

  std::vector<double> ordered(const Scalars& scalars) const {
    std::vector<double> values;
    for (const program::Scalar& scalar : tree().scalars) {
      const auto found = scalars.find(scalar.name);
      TORCH_CHECK(found != scalars.end(), "the tile program needs a value for scalar ", scalar.name);
      values.push_back(found->second);
    }
    TORCH_CHECK(scalars.size() == values.size(), "the tile program has ", values.size(), " scalars, ", scalars.size(),
                " were given");
    return values;
  }

  runtime::LoadedProgram& loaded(c10::DeviceIndex index) {
    const std::lock_guard lock(mutex_);
    auto& slot = loaded_[index];
    if (!slot) slot = runtime::LoadedProgram::load(runtime_device(index), executable_);
    return *slot;
  }

  std::shared_ptr<const card::Executable> executable_;
  std::mutex mutex_;  // loaded_
  std::map<c10::DeviceIndex, std::shared_ptr<runtime::LoadedProgram>> loaded_;
};

py::object timeline_tuple(const TileProgram& self, const Scalars& scalars) {
  const timing::Timeline& timeline = self.timeline(scalars);
  py::list calls;
  for (const timing::KernelTime& call : timeline.calls)
    calls.append(py::make_tuple(self.tree().kernels[call.kernel].name, call.start_ps, call.duration_ps, call.bytes_read,
                                call.bytes_written, call.macs, call.pt_busy_ps));
  return py::make_tuple(timeline.total_ps, calls);
}

py::list symbol_tuples(const TileProgram& self) {
  py::list out;
  for (const program::Symbol& symbol : self.tree().symbols)
    out.append(py::make_tuple(symbol.name, direction_name(symbol.direction),
                              std::string(base::format_name(symbol.format)), symbol.view.sizes));
  return out;
}

}  // namespace

void bind_tile(py::module_& m) {
  py::class_<TileProgram>(m, "TileProgram", "A verified tile program; use torch_spyre.tile.Program.")
      .def(py::init<const std::string&>(), py::arg("text"))
      .def("text", [](const TileProgram& self) { return program::print(self.tree()); })
      .def("symbols", symbol_tuples)
      .def("launch", &TileProgram::launch, py::arg("tensors"), py::arg("scalars"))
      .def("timeline", timeline_tuple, py::arg("scalars"))
      .def("write_trace", &TileProgram::write_trace, py::arg("path"), py::arg("scalars"));
  m.def(
      "start_trace", [](const std::string& path) { translated([&] { runtime::start_trace(path); }); }, py::arg("path"));
  m.def("stop_trace", [] { translated([] { runtime::stop_trace(); }); });
}

}  // namespace spyre::torch
