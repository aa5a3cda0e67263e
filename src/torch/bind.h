// Registration of the module's parts; one function per bind_*.cc.
#pragma once

#include <pybind11/pybind11.h>

namespace spyre::torch {

void bind_layouts(pybind11::module_& m);
void bind_devices(pybind11::module_& m);
void bind_tile(pybind11::module_& m);
void bind_compile(pybind11::module_& m);

}  // namespace spyre::torch
