// torch_spyre._C, the compiler half: a post-grad graph is handed over call by call, and comes back as graph text.
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "graph/import.h"
#include "torch/bind.h"
#include "torch/graph_types.h"
#include "torch/programs.h"
#include "torch/records.h"
#include "torch/state.h"

namespace py = pybind11;

namespace spyre::torch {
namespace {

using graph::Arg;
using graph::Ref;
using graph::Size;

/// What the importer refuses arrives in Python as NotImplementedError; everything else as torch's errors.
template <typename Body>
auto refusable(Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    if (error.fault() != Fault::unimplemented) rethrow(error);
    PyErr_SetString(PyExc_NotImplementedError, error.what());
    throw py::error_already_set();
  }
}

bool is_dtype(py::handle h) { return THPDtype_Check(h.ptr()); }

base::HostType dtype_of(py::handle h) { return host_type(reinterpret_cast<THPDtype*>(h.ptr())->scalar_type, 1); }

/// An int, or a GraphSize.
Size size_of(py::handle h) {
  if (py::isinstance<Size>(h)) return h.cast<Size>();
  return Size(h.cast<int64_t>());
}

std::vector<Size> sizes_of(const py::sequence& list) {
  std::vector<Size> out;
  for (py::handle h : list) out.push_back(size_of(h));
  return out;
}

Arg list_of(const py::sequence& list) {
  bool tensors = true, integers = true, gaps = false;
  for (py::handle h : list) {
    const bool ref = py::isinstance<Ref>(h);
    gaps = gaps || h.is_none();
    tensors = tensors && (ref || h.is_none());
    integers = integers && (py::isinstance<Size>(h) || py::isinstance<py::int_>(h));
  }
  if (tensors && gaps) {
    std::vector<std::optional<Ref>> out;
    for (py::handle h : list) out.push_back(h.is_none() ? std::nullopt : std::optional(h.cast<Ref>()));
    return out;
  }
  if (tensors) {
    std::vector<Ref> out;
    for (py::handle h : list) out.push_back(h.cast<Ref>());
    return out;
  }
  if (integers) return sizes_of(list);
  fail(Fault::unimplemented, "an argument that is the list {}", py::repr(list).cast<std::string>());
}

Arg arg_of(py::handle h) {
  if (h.is_none()) return std::monostate();
  if (py::isinstance<Ref>(h)) return h.cast<Ref>();
  if (py::isinstance<py::bool_>(h)) return h.cast<bool>();
  if (py::isinstance<py::int_>(h) || py::isinstance<Size>(h)) return size_of(h);
  if (py::isinstance<py::float_>(h)) return h.cast<double>();
  if (py::isinstance<py::str>(h)) return h.cast<std::string>();
  if (is_dtype(h)) return dtype_of(h);
  if (py::isinstance<py::list>(h) || py::isinstance<py::tuple>(h)) return list_of(h.cast<py::sequence>());
  fail(Fault::unimplemented, "an argument of type {}", py::str(py::type::of(h)).cast<std::string>());
}

py::object object_of(const Arg& arg) {
  if (const auto* ref = std::get_if<Ref>(&arg)) return py::cast(*ref);
  if (const auto* list = std::get_if<std::vector<Ref>>(&arg)) return py::cast(*list);
  return py::none();  // sizes and what isn't made: the caller knows them, or nobody reads them
}

py::object dtype_object(base::HostType type) {
  return py::reinterpret_borrow<py::object>(
      reinterpret_cast<PyObject*>(::torch::getTHPDtype(scalar_type(type))));  // NOLINT: THPDtype is a PyObject
}

class GraphBuilder {
 public:
  int64_t symbol(const std::string& name, int64_t lo, int64_t hi) { return builder_.symbol(name, lo, hi); }

  Ref input(const std::string& name, py::handle dtype, const py::sequence& sizes, const py::sequence& strides) {
    return refusable([&] { return builder_.input(name, dtype_of(dtype), sizes_of(sizes), sizes_of(strides)); });
  }

  /// Results as a list of references (lists of them for ops that return lists, None for what isn't made). `expected`:
  /// per result None or (dtype, sizes): what torch says it has; another one is refused.
  py::list call(const std::string& overload, const py::sequence& args, const std::string& op, const std::string& source,
                const py::sequence& expected) {
    return refusable([&] {
      std::vector<Arg> values;
      for (py::handle h : args) values.push_back(arg_of(h));
      const std::vector<Arg> results = builder_.call(overload, values, {op, source});
      for (size_t i = 0; i < std::min(results.size(), expected.size()); ++i) {
        if (const auto* ref = std::get_if<Ref>(&results[i]); ref && !py::object(expected[i]).is_none())
          check(overload, *ref, py::object(expected[i]).cast<py::tuple>());
      }
      py::list out;
      for (const Arg& result : results) out.append(object_of(result));
      return out;
    });
  }

  /// Returned by the launch as a tensor of exactly these strides; copied when the value has others.
  void output(const Ref& ref, const py::sequence& strides) {
    refusable([&] {
      const std::vector<Size> wanted = sizes_of(strides);
      const graph::Value& value = builder_.graph().values.at(static_cast<size_t>(ref.value));
      const bool whole = value.node != graph::none && ref == graph::whole(builder_.graph(), ref.value);
      if (whole && value.strides == wanted) return builder_.output(ref);
      const base::HostType type = builder_.type(ref);
      builder_.output(builder_.add(graph::copy_of(ref, type), {type}, {"aten.clone", ""}, {wanted})[0]);
    });
  }

  void mutate(const Ref& input, const Ref& value) { builder_.mutate(input.value, value); }

  /// (text, content hash). Ends the builder.
  std::pair<std::string, std::string> finish() {
    return refusable([&] {
      const graph::Graph graph = std::move(builder_).finish();
      return std::pair(graph::print(graph), graph::content_hash(graph));
    });
  }

 private:
  void check(const std::string& overload, const Ref& ref, const py::tuple& expected) const {
    const base::HostType type = dtype_of(expected[0]);
    if (builder_.type(ref) != type)
      fail(Fault::unimplemented, "{} gives {}, torch gives {}", overload, base::host_name(builder_.type(ref)),
           base::host_name(type));
    const std::vector<Size> sizes = sizes_of(expected[1].cast<py::sequence>());
    bool same = sizes.size() == ref.sizes.size();
    for (size_t d = 0; same && d < sizes.size(); ++d)
      same = !sizes[d].constant() || !ref.sizes[d].constant() || sizes[d] == ref.sizes[d];
    if (!same) fail(Fault::unimplemented, "{} gives other sizes than torch", overload);
  }

  graph::Builder builder_;
};

/// Of a graph's outputs: (dtype, sizes, strides) with sizes as text over s0, s1, ...
py::list output_shapes(const std::string& text) {
  const graph::Graph graph = translated([&] { return graph::parse(text); });
  py::list out;
  const auto texts = [](const std::vector<Size>& sizes) {
    py::list list;
    for (const Size& s : sizes) list.append(s.text());
    return list;
  };
  for (const Ref& ref : graph.outputs) {
    const graph::Value& value = graph.values[static_cast<size_t>(ref.value)];
    out.append(py::make_tuple(dtype_object(value.type), texts(ref.sizes), texts(ref.strides)));
  }
  return out;
}

void define(const std::string& key, const std::string& text, const std::vector<std::pair<std::string, size_t>>& sources,
            std::vector<at::Tensor> constants) {
  std::vector<std::pair<Program::Source, size_t>> list;
  for (const auto& [word, at] : sources)
    list.emplace_back(word == "input"     ? Program::Source::input
                      : word == "mutated" ? Program::Source::mutated
                                          : Program::Source::constant,
                      at);
  define_program(key, text, std::move(list), std::move(constants));
}

void set_dump_path(const std::string& key, const std::string& path) {
  Program& program = find_program(key);
  const std::lock_guard lock(program.mutex);
  program.dump_path = path;
}

/// Per recorded launch: (key, symbols, plan, program, total ps, calls as TileProgram.timeline gives them, with their
/// op).
py::list launches() {
  py::list out;
  for (const LaunchRecord& launch : take_launches()) {
    const auto& d = launch.description;
    py::list calls;
    for (size_t i = 0; i < d.timeline.calls.size(); ++i) {
      const timing::KernelTime& call = d.timeline.calls[i];
      calls.append(py::make_tuple(d.kernel_names[i], call.start_ps, call.duration_ps, call.bytes_read,
                                  call.bytes_written, call.macs, call.pt_busy_ps, d.kernel_ops[i]));
    }
    out.append(py::make_tuple(launch.key, launch.symbols, d.plan, d.program, d.timeline.total_ps, calls));
  }
  return out;
}

py::dict statistics() {
  const engine::Statistics s = engine::statistics();
  py::dict out;
  out["instances"] = s.instances;
  out["disk_hits"] = s.disk_hits;
  out["rebuilt"] = s.rebuilt;
  out["launches"] = s.launches;
  out["repacks"] = s.repacks;
  out["modelled_us"] = static_cast<double>(s.modelled_ps) / 1e6;
  return out;
}

}  // namespace

void bind_compile(py::module_& m) {
  py::class_<Size>(m, "GraphSize", "A size as an expression over the symbols of a graph.")
      .def(py::init([](const std::string& text) { return translated([&] { return Size::parse(text); }); }))
      .def("__repr__", &Size::text);
  py::class_<Ref>(m, "GraphRef", "A tensor of a graph that is being built.");
  py::class_<GraphBuilder>(m, "GraphBuilder", "Imports ATen calls; see torch_spyre._inductor.region.")
      .def(py::init<>())
      .def("symbol", &GraphBuilder::symbol)
      .def("input", &GraphBuilder::input)
      .def("call", &GraphBuilder::call)
      .def("output", &GraphBuilder::output)
      .def("mutate", &GraphBuilder::mutate)
      .def("finish", &GraphBuilder::finish);
  m.def("_graph_importable", [](const std::string& overload) { return graph::importable(overload); });
  m.def("_graph_outputs", &output_shapes);
  m.def("_define_program", &define);
  m.def("_dump_program", &set_dump_path);
  m.def("_record_launches", &record_launches, py::arg("trace_path") = "");
  m.def("_take_launches", &launches);
  m.def("_compiler_hash", [] { return translated([] { return engine::compiler_hash(); }); });
  m.def("_compile_statistics", &statistics);
  m.def("_reset_compile_statistics", &engine::reset_statistics);
}

}  // namespace spyre::torch
