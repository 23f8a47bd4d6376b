#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "computed.h"
#include "options.h"
#include "pickled.h"

namespace deq::python {

void bind_jacobian(py::module_& module) {
  py::class_<Linearization>(
      module, "Linearization",
      "f's Jacobian J = ∂f/∂z at one point z, as products with J, no J itself.")
      .def_property_readonly("z", [](const Linearization& at) { return at.z(); })
      .def_property_readonly("batch", &Linearization::batch)
      .def_property_readonly("dim", &Linearization::dim)
      .def("vjp", &Linearization::vjp, py::arg("u"), py::arg("differentiable") = false, Unlocked(),
           "uᵀJ for every sample, u [B, D].")
      .def("__repr__", [](const Linearization& at) {
        return "<Linearization: " + std::to_string(at.batch()) + " samples of " +
               std::to_string(at.dim()) + " numbers>";
      });

  py::class_<SpectralRadius>(module, "SpectralRadius", "The largest |λ(J)| of every sample.")
      .def_readonly("rho", &SpectralRadius::rho)
      .def_readonly("error", &SpectralRadius::error)
      .def_readonly("products", &SpectralRadius::products)
      .def("mean", &SpectralRadius::mean)
      .def("__repr__",
           [](const SpectralRadius& radius) {
             return "<SpectralRadius: mean " +
                    py::str(py::float_(radius.mean())).cast<std::string>() + " of " +
                    std::to_string(radius.rho.size()) + " samples, " +
                    std::to_string(radius.products) + " products>";
           })
      .def(pickled(&SpectralRadius::rho, &SpectralRadius::error, &SpectralRadius::products));

  py::class_<Tangent>(module, "Tangent", "How an equilibrium moves, and how it was found.")
      .def_readonly("along", &Tangent::along)
      .def_readonly("report", &Tangent::report)
      .def("__repr__",
           [](const Tangent& found) { return "<Tangent: " + found.report.brief() + ">"; })
      .def(pickled(&Tangent::along, &Tangent::report));

  py::class_<ProbeKey>(module, "ProbeKey", "Where the probes of an estimate come from.")
      .def(py::init([](uint64_t key, int64_t first_sample) {
             return ProbeKey{.key = key, .first_sample = first_sample};
           }),
           py::arg("key"), py::arg("first_sample") = 0)
      .def_readonly("key", &ProbeKey::key)
      .def_readonly("first_sample", &ProbeKey::first_sample)
      .def("__repr__",
           [](const ProbeKey& from) {
             return "ProbeKey(key=" + std::to_string(from.key) +
                    ", first_sample=" + std::to_string(from.first_sample) + ")";
           })
      .def(pickled(&ProbeKey::key, &ProbeKey::first_sample));

  module.def(
      "frobenius_squared",
      [](const Linearization& at, const Hutchinson& options, std::optional<ProbeKey> key,
         std::optional<at::Generator> generator, bool differentiable) {
        return computed([&] {
          return key ? frobenius_squared(at, options, *key, differentiable)
                     : frobenius_squared(at, options, generator, differentiable);
        });
      },
      py::arg("at"), py::arg("options"), py::arg("key"), py::arg("generator"),
      py::arg("differentiable"));
  module.def(
      "jacobian_penalty",
      [](const Linearization& at, const Hutchinson& options, std::optional<ProbeKey> key,
         std::optional<at::Generator> generator) {
        return computed([&] {
          return key ? jacobian_penalty(at, options, *key)
                     : jacobian_penalty(at, options, generator);
        });
      },
      py::arg("at"), py::arg("options"), py::arg("key"), py::arg("generator"));
  module.def(
      "squared_gain",
      [](const Linearization& at, int64_t steps, const Hutchinson& start,
         std::optional<ProbeKey> key, std::optional<at::Generator> generator, bool differentiable) {
        const PowerProbes options{.steps = steps, .start = start};
        return computed([&] {
          return key ? squared_gain(at, options, *key, differentiable)
                     : squared_gain(at, options, generator, differentiable);
        });
      },
      py::arg("at"), py::arg("steps"), py::arg("start"), py::arg("key"), py::arg("generator"),
      py::arg("differentiable"));
  module.def(
      "spectral_penalty",
      [](const Linearization& at, int64_t steps, const Hutchinson& start,
         std::optional<ProbeKey> key, std::optional<at::Generator> generator) {
        const PowerProbes options{.steps = steps, .start = start};
        return computed([&] {
          return key ? spectral_penalty(at, options, *key)
                     : spectral_penalty(at, options, generator);
        });
      },
      py::arg("at"), py::arg("steps"), py::arg("start"), py::arg("key"), py::arg("generator"));
  module.def(
      "linsley_penalty",
      [](const Linearization& at, double lambda) {
        return computed([&] { return linsley_penalty(at, lambda); });
      },
      py::arg("at"), py::arg("lambda_"));
  module.def(
      "spectral_radius",
      [](const Linearization& at, const SpectralRadiusOptions& options,
         std::optional<at::Generator> generator) {
        return spectral_radius(at, options, std::move(generator));
      },
      py::arg("at"), py::arg("options"), py::arg("generator"), Unlocked());
  module.def("dense_jacobian", &dense_jacobian, py::arg("at"), Unlocked());
  module.def(
      "tangent",
      [](const Linearization& at, const std::vector<std::pair<torch::Tensor, torch::Tensor>>& moves,
         const SolverOptions& solver) {
        std::vector<Move> all;
        for (const auto& [of, along] : moves) all.push_back({.of = of, .along = along});
        return tangent(at, all, solver);
      },
      py::arg("at"), py::arg("moves"), py::arg("solver"), Unlocked());
}

}  // namespace deq::python
