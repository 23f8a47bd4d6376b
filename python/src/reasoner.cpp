// The networks that solve puzzles: python/deq/models/reasoning.py.

#include <optional>
#include <tuple>

#include "computed.h"
#include "deq/models.h"
#include "model_bindings.h"
#include "plan.h"

namespace deq::python {

using models::ReasonerImpl;
using models::ReasonerOptions;

void bind_reasoner(py::module_& module) {
  model_options<ReasonerOptions>(module, "ReasonerOptions",
                                 "A small network that is applied until its answer settles.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "tokens", [](auto& o) -> auto& { return o.tokens; })
      .field(
          "width", [](auto& o) -> auto& { return o.width; })
      .field(
          "layers", [](auto& o) -> auto& { return o.layers; })
      .field(
          "expansion", [](auto& o) -> auto& { return o.expansion; })
      .field(
          "inner_multiple", [](auto& o) -> auto& { return o.inner_multiple; })
      .field(
          "attention", [](auto& o) -> auto& { return o.attention; })
      .field(
          "heads", [](auto& o) -> auto& { return o.heads; })
      .field(
          "inner_steps", [](auto& o) -> auto& { return o.inner_steps; })
      .field(
          "damping", [](auto& o) -> auto& { return o.damping; })
      .field(
          "noise", [](auto& o) -> auto& { return o.noise; })
      .field(
          "start", [](auto& o) -> auto& { return o.start; })
      .done();
  model<ReasonerImpl, ReasonerOptions>(module, "Reasoner")
      .def(
          "start_of",
          [](ReasonerImpl& self, const torch::Tensor& tokens,
             const std::optional<at::Generator>& generator) {
            return self.start_of(tokens, generator);
          },
          py::arg("tokens"), py::arg("generator"), Unlocked())
      .def(
          "forward",
          [](ReasonerImpl& self, const torch::Tensor& tokens, const State& start,
             const PythonPlan& plan) {
            return computed([&] {
              auto output = self.forward(tokens, start, plan.plan());
              plan.raise_failures(output.equilibrium);
              return std::tuple(output.logits, output.settled, output.equilibrium);
            });
          },
          py::arg("tokens"), py::arg("start"), py::arg("plan"));
}

}  // namespace deq::python
