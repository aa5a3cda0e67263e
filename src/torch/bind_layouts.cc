// torch_spyre._C, the layout half: DataFormats, ElementArrangement, SpyreTensorLayout, and tensors made with them.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/as_strided.h>
#include <c10/util/strides.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <bit>
#include <optional>

#include "base/formats.h"
#include "torch/bind.h"
#include "torch/copy.h"
#include "torch/records.h"

namespace py = pybind11;

namespace spyre::torch {
namespace {

using at::ScalarType;
using at::Tensor;
using layout::DataFormats;
using layout::ElementArrangement;
using layout::SpyreTensorLayout;
using Ints = std::vector<int64_t>;
using Release = py::call_guard<py::gil_scoped_release>;

base::HostType type_of(ScalarType type) { return host_type(type, 2); }

DataFormats device_dtype(ScalarType type) {
  if (type == ScalarType::Float8_e5m2fnuz) return DataFormats::SEN152_FP8;
  return translated([&] { return layout::data_format_of(type_of(type)); });
}

Tensor empty_with_layout(const Ints& size, const SpyreTensorLayout& layout, ScalarType type,
                         std::optional<c10::Device> device) {
  return new_tensor_with_layout(size, c10::contiguous_strides(size), type, device.value_or(current_device()), layout);
}

Tensor spyre_empty_with_layout(const Ints& size, const Ints& stride, ScalarType type, const SpyreTensorLayout& layout) {
  TORCH_CHECK_VALUE(size.size() == stride.size(), "spyre_empty_with_layout: ", size.size(), " sizes and ",
                    stride.size(), " strides");
  return new_tensor_with_layout(size, stride, type, current_device(), layout);
}

Tensor to_with_layout(const Tensor& tensor, const SpyreTensorLayout& layout, std::optional<c10::Device> device,
                      bool non_blocking) {
  const c10::Device where = device ? *device : tensor.is_privateuseone() ? tensor.device() : current_device();
  const auto contiguous = c10::contiguous_strides(tensor.sizes());
  const at::IntArrayRef strides =
      tensor.is_non_overlapping_and_dense() ? tensor.strides() : at::IntArrayRef(contiguous);
  const Tensor result = new_tensor_with_layout(tensor.sizes(), strides, tensor.scalar_type(), where, layout);
  copy_from(tensor.detach(), result, non_blocking);
  return result;
}

Tensor as_strided_with_layout(const Tensor& tensor, const Ints& size, const Ints& stride, std::optional<int64_t> offset,
                              const SpyreTensorLayout& layout) {
  const Tensor view = at::as_strided(tensor, size, stride, offset);
  if (!(tensor_layout(view) == layout)) set_tensor_layout(view, layout);
  return view;
}

Tensor reinterpret_tensor(const Tensor& tensor, const Ints& size, const Ints& stride, int64_t offset_increment) {
  return at::as_strided(tensor, size, stride, tensor.storage_offset() + offset_increment);
}

/// The bits of one element, as an unsigned integer.
uint64_t encode_constant(double value, DataFormats format) {
  const auto narrow = static_cast<float>(value);
  const auto integer = [&](double lo, double hi) {
    TORCH_CHECK_VALUE(value >= lo && value <= hi, "encode_constant: ", value, " is outside ",
                      layout::data_format_name(format));
    return static_cast<int64_t>(value);
  };
  switch (format) {
    case DataFormats::SEN169_FP16:
      return base::f32_to_dl16(narrow, base::Overflow::saturate);
    case DataFormats::IEEE_FP32:
      return std::bit_cast<uint32_t>(narrow);
    case DataFormats::IEEE_FP16:
      return base::f32_to_f16(narrow);
    case DataFormats::BFLOAT16:
      return base::f32_to_bf16(narrow);
    case DataFormats::SEN143_FP8:
      return base::f32_to_e4m3(narrow);
    case DataFormats::SEN152_FP8:
      return base::f32_to_e5m2(narrow);
    case DataFormats::IEEE_INT32:
      return static_cast<uint32_t>(integer(-2147483648.0, 2147483647.0));
    case DataFormats::SENUINT32:
      return static_cast<uint32_t>(integer(0, 4294967295.0));
    case DataFormats::SENINT8:
      return static_cast<uint8_t>(integer(-128, 127));
    case DataFormats::SENINT16:
      return static_cast<uint16_t>(integer(-32768, 32767));
    case DataFormats::BOOL:
      return value != 0;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "encode_constant: no encoding for ", layout::data_format_name(format));
  }
}

void bind_enums(py::module_& m) {
  py::enum_<DataFormats> formats(m, "DataFormats", "The vendor stack's device data formats.");
  for (int i = 0; i <= static_cast<int>(DataFormats::SEN18F_FP24); ++i)
    formats.value(layout::data_format_name(static_cast<DataFormats>(i)), static_cast<DataFormats>(i));
  formats.def(
      "elems_per_stick", [](DataFormats f) { return translated([&] { return layout::elems_per_stick(f); }); },
      "Elements of one 128-byte stick.");
  py::enum_<ElementArrangement> arrangements(m, "ElementArrangement");
  for (int i = 0; i <= static_cast<int>(ElementArrangement::QFP8WT); ++i)
    arrangements.value(layout::element_arrangement_name(static_cast<ElementArrangement>(i)),
                       static_cast<ElementArrangement>(i));
}

void bind_class(py::module_& m) {
  using L = SpyreTensorLayout;
  constexpr auto standard = ElementArrangement::STANDARD;
  py::class_<L>(m, "SpyreTensorLayout",
                "Where the elements of a tensor are in device memory; docs/interface.md section 3.")
      .def(py::init([](Ints size, ScalarType type) {
             return translated([&] { return L(std::move(size), type_of(type)); });
           }),
           py::arg("host_size"), py::arg("dtype"))
      .def(py::init([](Ints size, Ints strides, ScalarType type, Ints order, ElementArrangement arrangement) {
             return translated(
                 [&] { return L(std::move(size), std::move(strides), type_of(type), std::move(order), arrangement); });
           }),
           py::arg("host_size"), py::arg("host_strides"), py::arg("dtype"), py::arg("dim_order"),
           py::arg("element_arrangement") = standard)
      .def(py::init([](Ints size, Ints stride_map, DataFormats type, ElementArrangement arrangement) {
             return translated([&] { return L(std::move(size), std::move(stride_map), type, arrangement); });
           }),
           py::arg("device_size"), py::arg("stride_map"), py::arg("device_dtype"),
           py::arg("element_arrangement") = standard)
      .def_property_readonly("device_size", &L::device_size)
      .def_property_readonly("stride_map", &L::stride_map)
      .def_property_readonly("device_dtype", &L::device_dtype)
      .def_property_readonly("element_arrangement", &L::element_arrangement)
      .def("elems_per_stick", [](const L& self) { return translated([&] { return self.elems_per_stick(); }); })
      .def("device_bytes", [](const L& self) { return translated([&] { return self.device_bytes(); }); })
      .def("with_element_arrangement", &L::with_element_arrangement, py::arg("element_arrangement"))
      .def("__eq__", [](const L& a, const py::object& b) { return py::isinstance<L>(b) && a == b.cast<const L&>(); })
      .def("__hash__", [](const L& self) { return static_cast<py::ssize_t>(self.hash() >> 1); })
      .def("__repr__", &L::repr)
      .def(py::pickle(
          [](const L& self) {
            return py::make_tuple(self.device_size(), self.stride_map(), static_cast<int>(self.device_dtype()),
                                  static_cast<int>(self.element_arrangement()));
          },
          [](const py::tuple& state) {
            TORCH_CHECK_VALUE(state.size() == 4, "a pickled SpyreTensorLayout has 4 fields, not ", state.size());
            return translated([&] {
              return L(state[0].cast<Ints>(), state[1].cast<Ints>(), static_cast<DataFormats>(state[2].cast<int>()),
                       static_cast<ElementArrangement>(state[3].cast<int>()));
            });
          }));
}

}  // namespace

void bind_layouts(py::module_& m) {
  bind_enums(m);
  bind_class(m);
  m.def("get_spyre_tensor_layout", &tensor_layout, Release());
  m.def("set_spyre_tensor_layout", &set_tensor_layout, Release());
  m.def("get_device_dtype", &device_dtype, py::arg("dtype"));
  m.def(
      "get_elem_in_stick",
      [](ScalarType type) { return translated([&] { return layout::elems_per_stick(device_dtype(type)); }); },
      py::arg("dtype"));
  m.def("empty_with_layout", &empty_with_layout, py::arg("size"), py::arg("layout"), py::arg("dtype"),
        py::arg("device") = py::none(), Release());
  m.def("spyre_empty_with_layout", &spyre_empty_with_layout, py::arg("size"), py::arg("stride"), py::arg("dtype"),
        py::arg("layout"), Release());
  m.def("to_with_layout", &to_with_layout, py::arg("tensor"), py::arg("layout"), py::arg("device") = py::none(),
        py::arg("non_blocking") = false, Release());
  m.def("as_strided_with_layout", &as_strided_with_layout, py::arg("tensor"), py::arg("size"), py::arg("stride"),
        py::arg("storage_offset"), py::arg("layout"), Release());
  m.def("reinterpret_tensor", &reinterpret_tensor, py::arg("tensor"), py::arg("size"), py::arg("stride"),
        py::arg("offset_increment") = 0, Release());
  m.def(
      "reinterpret_tensor_with_layout",
      [](const Tensor& t, const Ints& size, const Ints& stride, int64_t increment, const SpyreTensorLayout& layout) {
        return as_strided_with_layout(t, size, stride, t.storage_offset() + increment, layout);
      },
      py::arg("tensor"), py::arg("size"), py::arg("stride"), py::arg("offset_increment"), py::arg("layout"), Release());
  m.def("encode_constant", &encode_constant, py::arg("value"), py::arg("format"));
  m.def("get_downcast_warning", &downcast_warning);
  m.def("set_downcast_warning", &set_downcast_warning, py::arg("on"));
}

}  // namespace spyre::torch
