// deq._core: the C++ library as Python sees it. The package around it is in python/deq.

#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "deq/version.h"
#include "options.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled core of deq.";
  deq::python::bind_errors(module);
  deq::python::bind_options(module);
  deq::python::bind_reports(module);
  deq::python::bind_jacobian(module);
  deq::python::bind_kernels(module);
  deq::python::bind_layer(module);
  deq::python::bind_mixing(module);
  deq::python::bind_models(module);
  module.attr("__version__") = DEQ_VERSION;
  module.attr("torch_version") = DEQ_BUILT_WITH_TORCH;
  module.def("cuda_status", [] {
    const auto& status = deq::cuda_status();
    return pybind11::make_tuple(status.available, status.reason);
  });
}
