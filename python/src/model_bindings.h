#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "options.h"

// How the models are shown to Python, whose modules share their tensors: python/deq/models/.

namespace deq::python {

template <class Options>
OptionsClass<Options> model_options(py::module_& module, const char* name, const char* doc) {
  return {module, name, doc, [](const Options& options) { validate(options); }};
}

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

/// What all models have. Python's modules are made of these tensors, not of copies.
template <class Model, class Options>
py::class_<Model, std::shared_ptr<Model>> model(py::module_& module, const char* name) {
  return py::class_<Model, std::shared_ptr<Model>>(module, name)
      .def(py::init([](const Options& options, const std::optional<at::Generator>& generator) {
             return std::make_shared<Model>(options, generator);
           }),
           py::arg("options"), py::arg("generator"))
      .def("named_parameters",
           [](const Model& self) { return Named(self.named_parameters().pairs()); })
      .def("named_buffers", [](const Model& self) { return Named(self.named_buffers().pairs()); })
      .def(
          "train", [](Model& self, bool mode) { self.train(mode); }, py::arg("mode"));
}

void bind_language_models(py::module_& module);
void bind_reasoner(py::module_& module);

}  // namespace deq::python
