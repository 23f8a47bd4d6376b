#pragma once

#include <pybind11/pybind11.h>

namespace deq::python {

namespace py = pybind11;

/// Of a function that computes without the interpreter's lock.
using Unlocked = py::call_guard<py::gil_scoped_release>;

void bind_errors(py::module_& module);
void bind_reports(py::module_& module);
void bind_jacobian(py::module_& module);
void bind_kernels(py::module_& module);
void bind_layer(py::module_& module);
void bind_mixing(py::module_& module);
void bind_models(py::module_& module);

}  // namespace deq::python
