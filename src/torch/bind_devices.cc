// torch_spyre._C, the device half: devices, streams, generators, fallback counts. Asking starts nothing.
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "device/description.h"
#include "torch/bind.h"
#include "torch/fallback.h"
#include "torch/generator.h"
#include "torch/state.h"

namespace py = pybind11;

namespace spyre::torch {
namespace {

using Release = py::call_guard<py::gil_scoped_release>;

/// The index that None, an int, "spyre:1" or a torch.device means.
c10::DeviceIndex device_index(const py::object& device) {
  if (device.is_none()) return current_device().index();
  if (py::isinstance<py::int_>(device)) {
    const int64_t index = device.cast<int64_t>();
    TORCH_CHECK(index >= 0 && index < runtime::device_count(), "spyre device ", index,
                " does not exist: this process sees ", runtime::device_count(),
                " (SPYRE_DEVICES lists them, as \"0,1\")");
    return static_cast<c10::DeviceIndex>(index);
  }
  if (py::isinstance<py::str>(device)) return complete(c10::Device(device.cast<std::string>())).index();
  return complete(device.cast<c10::Device>()).index();
}

// `with stream:` nests: what was current before is restored at the end, in reverse order.
struct Pushed {
  c10::DeviceIndex device_before, device;
  int64_t stream_before;
};
thread_local std::vector<Pushed> pushed;

void set_stream(int64_t id, c10::DeviceIndex index) {
  set_current_device(index);
  exchange_stream(index, id);
}

void push_stream(int64_t id, c10::DeviceIndex index) {
  const c10::DeviceIndex before = exchange_device(index);
  pushed.push_back({before, index, exchange_stream(index, id)});
}

void pop_stream() {
  TORCH_CHECK(!pushed.empty(), "a stream context was left more often than it was entered");
  const Pushed last = pushed.back();
  pushed.pop_back();
  exchange_stream(last.device, last.stream_before);
  exchange_device(last.device_before);
}

py::dict device_properties() {
  const device::Description& d =
      translated([]() -> const device::Description& { return device::current_description(); });
  py::dict properties;
  properties["name"] = d.name;
  properties["multi_processor_count"] = d.cores;
  properties["total_memory"] = d.memory_bytes;
  properties["scratchpad_bytes"] = d.lx_bytes;
  properties["clock_rate"] = static_cast<int64_t>(d.core_ghz * 1e6);
  return properties;
}

void set_python_warning(py::object warn) {
  // Leaked: the interpreter may be gone when this library's statics are destroyed.
  auto* callable = new py::object(std::move(warn));
  set_fallback_warning([callable](const std::string& op, const std::string& arguments) {
    const py::gil_scoped_acquire gil;
    try {
      (*callable)(op, arguments);
    } catch (py::error_already_set& error) {  // a warning turned into an error
      error.restore();
      python_error caught;
      caught.persist();
      throw std::move(caught);
    }
  });
}

}  // namespace

void bind_devices(py::module_& m) {
  m.attr("_device_type") = static_cast<int>(device_type);
  m.def("device_count", &runtime::device_count);
  m.def("current_device", [] { return static_cast<int>(current_device().index()); });
  m.def("set_device", [](const py::object& device) { set_current_device(device_index(device)); });
  m.def("_exchange_device",
        [](int index) { return static_cast<int>(exchange_device(static_cast<c10::DeviceIndex>(index))); });
  m.def(
      "_device_index", [](const py::object& device) { return static_cast<int>(device_index(device)); },
      py::arg("device") = py::none());
  m.def(
      "synchronize",
      [](const py::object& device) {
        const c10::DeviceIndex index = device_index(device);
        const py::gil_scoped_release release;
        translated([&] {
          runtime::check_process();
          if (runtime::Device* started = runtime::started_device(index)) started->synchronize();
        });
      },
      py::arg("device") = py::none());
  m.def("_init", [] { runtime_device(current_device().index()); }, Release());
  m.def("_is_initialized", &runtime::started);
  m.def("_is_in_bad_fork", &runtime::in_forked_child);
  m.def("_device_properties", &device_properties);

  m.def("_current_stream", [](int index) { return current_stream_id(static_cast<c10::DeviceIndex>(index)); });
  m.def("_set_stream", [](int64_t id, int index) { set_stream(id, static_cast<c10::DeviceIndex>(index)); });
  m.def("_push_stream", [](int64_t id, int index) { push_stream(id, static_cast<c10::DeviceIndex>(index)); });
  m.def("_pop_stream", &pop_stream);
  m.def("_stream_priority", [](int64_t id, int index) {
    return runtime_stream(
               c10::Stream(c10::Stream::UNSAFE, c10::Device(device_type, static_cast<c10::DeviceIndex>(index)), id))
        .priority();
  });
  m.def(
      "create_stream",
      [](const py::object& device, int priority) {
        runtime::Device& owner = runtime_device(device_index(device));
        return torch_stream(translated([&]() -> runtime::Stream& { return owner.create_stream(priority); }));
      },
      py::arg("device") = py::none(), py::arg("priority") = 0);

  m.def("_default_generator", [](int index) { return default_generator(static_cast<c10::DeviceIndex>(index)); });
  m.def(
      "create_generator", [](const py::object& device) { return new_generator(device_index(device)); },
      py::arg("device") = py::none());

  m.def("_fallback_counts", &fallback_counts);
  m.def("_reset_fallback_counts", &reset_fallback_counts);
  m.def("_set_fallback_warning", &set_python_warning);
}

}  // namespace spyre::torch

PYBIND11_MODULE(_C, m) {
  m.doc() = "The PyTorch side of the Spyre device, in C++.";
  spyre::torch::bind_layouts(m);
  spyre::torch::bind_devices(m);
  spyre::torch::bind_tile(m);
  spyre::torch::bind_compile(m);
}
