#include "kernels/norms/group_norm.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/types.h>

#include <optional>

#include "bindings.h"

namespace deq::python {
namespace {

using OptionalTensor = std::optional<torch::Tensor>;

kernels::GroupNormOptions group_norm_options(int64_t groups, double eps, torch::ScalarType type) {
  return {.groups = groups, .eps = eps, .type = type};
}

}  // namespace

void bind_kernels(py::module_& module) {
  module.def(
      "group_norm_serves",
      [](const torch::Tensor& x, const OptionalTensor& weight, int64_t groups, double eps,
         torch::ScalarType type) {
        return kernels::group_norm_serves(x, weight.value_or(torch::Tensor()),
                                          group_norm_options(groups, eps, type));
      },
      py::arg("x"), py::arg("weight"), py::arg("groups"), py::arg("eps"), py::arg("dtype"));
  module.def(
      "group_norm",
      [](const torch::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
         int64_t groups, double eps, torch::ScalarType type) {
        const torch::Tensor none;
        return kernels::group_norm(x, weight.value_or(none), bias.value_or(none), none,
                                   group_norm_options(groups, eps, type));
      },
      py::arg("x"), py::arg("weight"), py::arg("bias"), py::arg("groups"), py::arg("eps"),
      py::arg("dtype"), Unlocked());
}

}  // namespace deq::python
