// The language models: python/deq/models/language.py.

#include <tuple>

#include "computed.h"
#include "deq/models.h"
#include "model_bindings.h"
#include "plan.h"

namespace deq::python {
namespace {

using namespace models;

using Tensors = std::vector<torch::Tensor>;

void bind_language_options(py::module_& module) {
  model_options<TransformerOptions>(module, "TransformerOptions",
                                    "A language model of one Transformer layer at its equilibrium.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "cutoffs", [](auto& o) -> auto& { return o.cutoffs; })
      .field(
          "div_val", [](auto& o) -> auto& { return o.div_val; })
      .field(
          "d_model", [](auto& o) -> auto& { return o.d_model; })
      .field(
          "d_embed", [](auto& o) -> auto& { return o.d_embed; })
      .field(
          "heads", [](auto& o) -> auto& { return o.heads; })
      .field(
          "d_head", [](auto& o) -> auto& { return o.d_head; })
      .field(
          "d_inner", [](auto& o) -> auto& { return o.d_inner; })
      .field(
          "horizon", [](auto& o) -> auto& { return o.horizon; })
      .field(
          "pre_ln", [](auto& o) -> auto& { return o.pre_ln; })
      .field(
          "weight_norm", [](auto& o) -> auto& { return o.weight_norm; })
      .field(
          "tie_weights", [](auto& o) -> auto& { return o.tie_weights; })
      .field(
          "tie_projections", [](auto& o) -> auto& { return o.tie_projections; })
      .field(
          "dropout", [](auto& o) -> auto& { return o.dropout; })
      .field(
          "attention_dropout", [](auto& o) -> auto& { return o.attention_dropout; })
      .field(
          "init_std", [](auto& o) -> auto& { return o.init_std; })
      .field(
          "predicted_start", [](auto& o) -> auto& { return o.predicted_start; })
      .field(
          "normalised_residual", [](auto& o) -> auto& { return o.normalised_residual; })
      .field(
          "default_init_when_normalised",
          [](auto& o) -> auto& { return o.default_init_when_normalised; })
      .field(
          "output_drops_positions", [](auto& o) -> auto& { return o.output_drops_positions; })
      .done();
  model_options<TransformerXlOptions>(module, "TransformerXLOptions",
                                      "Transformer-XL, the DEQ-Transformer's explicit rival.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "cutoffs", [](auto& o) -> auto& { return o.cutoffs; })
      .field(
          "div_val", [](auto& o) -> auto& { return o.div_val; })
      .field(
          "layers", [](auto& o) -> auto& { return o.layers; })
      .field(
          "d_model", [](auto& o) -> auto& { return o.d_model; })
      .field(
          "d_embed", [](auto& o) -> auto& { return o.d_embed; })
      .field(
          "heads", [](auto& o) -> auto& { return o.heads; })
      .field(
          "d_head", [](auto& o) -> auto& { return o.d_head; })
      .field(
          "d_inner", [](auto& o) -> auto& { return o.d_inner; })
      .field(
          "horizon", [](auto& o) -> auto& { return o.horizon; })
      .field(
          "clamp_distance", [](auto& o) -> auto& { return o.clamp_distance; })
      .field(
          "pre_ln", [](auto& o) -> auto& { return o.pre_ln; })
      .field(
          "tie_weights", [](auto& o) -> auto& { return o.tie_weights; })
      .field(
          "tie_projections", [](auto& o) -> auto& { return o.tie_projections; })
      .field(
          "dropout", [](auto& o) -> auto& { return o.dropout; })
      .field(
          "attention_dropout", [](auto& o) -> auto& { return o.attention_dropout; })
      .field(
          "init_std", [](auto& o) -> auto& { return o.init_std; })
      .done();
  model_options<LoopedTransformerOptions>(module, "LoopedTransformerOptions",
                                          "A language model of recurrent depth.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "cutoffs", [](auto& o) -> auto& { return o.cutoffs; })
      .field(
          "div_val", [](auto& o) -> auto& { return o.div_val; })
      .field(
          "prelude", [](auto& o) -> auto& { return o.prelude; })
      .field(
          "core", [](auto& o) -> auto& { return o.core; })
      .field(
          "coda", [](auto& o) -> auto& { return o.coda; })
      .field(
          "d_model", [](auto& o) -> auto& { return o.d_model; })
      .field(
          "d_embed", [](auto& o) -> auto& { return o.d_embed; })
      .field(
          "heads", [](auto& o) -> auto& { return o.heads; })
      .field(
          "d_head", [](auto& o) -> auto& { return o.d_head; })
      .field(
          "d_inner", [](auto& o) -> auto& { return o.d_inner; })
      .field(
          "horizon", [](auto& o) -> auto& { return o.horizon; })
      .field(
          "pre_ln", [](auto& o) -> auto& { return o.pre_ln; })
      .field(
          "tie_weights", [](auto& o) -> auto& { return o.tie_weights; })
      .field(
          "tie_projections", [](auto& o) -> auto& { return o.tie_projections; })
      .field(
          "dropout", [](auto& o) -> auto& { return o.dropout; })
      .field(
          "attention_dropout", [](auto& o) -> auto& { return o.attention_dropout; })
      .field(
          "init_std", [](auto& o) -> auto& { return o.init_std; })
      .field(
          "start_std", [](auto& o) -> auto& { return o.start_std; })
      .done();
  model_options<RelationalMemoryOptions>(module, "RelationalMemoryOptions",
                                         "A language model around a relational memory core.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "cutoffs", [](auto& o) -> auto& { return o.cutoffs; })
      .field(
          "div_val", [](auto& o) -> auto& { return o.div_val; })
      .field(
          "d_model", [](auto& o) -> auto& { return o.d_model; })
      .field(
          "d_embed", [](auto& o) -> auto& { return o.d_embed; })
      .field(
          "slots", [](auto& o) -> auto& { return o.slots; })
      .field(
          "heads", [](auto& o) -> auto& { return o.heads; })
      .field(
          "head_size", [](auto& o) -> auto& { return o.head_size; })
      .field(
          "blocks", [](auto& o) -> auto& { return o.blocks; })
      .field(
          "mlp_layers", [](auto& o) -> auto& { return o.mlp_layers; })
      .field(
          "gates", [](auto& o) -> auto& { return o.gates; })
      .field(
          "tie_weights", [](auto& o) -> auto& { return o.tie_weights; })
      .field(
          "tie_projections", [](auto& o) -> auto& { return o.tie_projections; })
      .field(
          "embedding_dropout", [](auto& o) -> auto& { return o.embedding_dropout; })
      .field(
          "output_dropout", [](auto& o) -> auto& { return o.output_dropout; })
      .field(
          "init_std", [](auto& o) -> auto& { return o.init_std; })
      .done();
  model_options<QrnnOptions>(module, "QrnnOptions", "AWD-QRNN, a quasi-recurrent language model.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "cutoffs", [](auto& o) -> auto& { return o.cutoffs; })
      .field(
          "div_val", [](auto& o) -> auto& { return o.div_val; })
      .field(
          "layers", [](auto& o) -> auto& { return o.layers; })
      .field(
          "d_embed", [](auto& o) -> auto& { return o.d_embed; })
      .field(
          "d_hidden", [](auto& o) -> auto& { return o.d_hidden; })
      .field(
          "window", [](auto& o) -> auto& { return o.window; })
      .field(
          "tie_weights", [](auto& o) -> auto& { return o.tie_weights; })
      .field(
          "tie_projections", [](auto& o) -> auto& { return o.tie_projections; })
      .field(
          "embedding_dropout", [](auto& o) -> auto& { return o.embedding_dropout; })
      .field(
          "input_dropout", [](auto& o) -> auto& { return o.input_dropout; })
      .field(
          "hidden_dropout", [](auto& o) -> auto& { return o.hidden_dropout; })
      .field(
          "output_dropout", [](auto& o) -> auto& { return o.output_dropout; })
      .field(
          "weight_dropout", [](auto& o) -> auto& { return o.weight_dropout; })
      .field(
          "activation_penalty", [](auto& o) -> auto& { return o.activation_penalty; })
      .field(
          "slowness_penalty", [](auto& o) -> auto& { return o.slowness_penalty; })
      .field(
          "init_std", [](auto& o) -> auto& { return o.init_std; })
      .done();
  model_options<Gpt2Options>(module, "GPT2Options",
                             "GPT-2 as Megatron-LM trains it, a language model that reads windows.")
      .field(
          "vocabulary", [](auto& o) -> auto& { return o.vocabulary; })
      .field(
          "cutoffs", [](auto& o) -> auto& { return o.cutoffs; })
      .field(
          "div_val", [](auto& o) -> auto& { return o.div_val; })
      .field(
          "layers", [](auto& o) -> auto& { return o.layers; })
      .field(
          "d_model", [](auto& o) -> auto& { return o.d_model; })
      .field(
          "d_embed", [](auto& o) -> auto& { return o.d_embed; })
      .field(
          "heads", [](auto& o) -> auto& { return o.heads; })
      .field(
          "d_inner", [](auto& o) -> auto& { return o.d_inner; })
      .field(
          "positions", [](auto& o) -> auto& { return o.positions; })
      .field(
          "tie_weights", [](auto& o) -> auto& { return o.tie_weights; })
      .field(
          "tie_projections", [](auto& o) -> auto& { return o.tie_projections; })
      .field(
          "dropout", [](auto& o) -> auto& { return o.dropout; })
      .field(
          "attention_dropout", [](auto& o) -> auto& { return o.attention_dropout; })
      .field(
          "init_std", [](auto& o) -> auto& { return o.init_std; })
      .done();
}

void bind_deq_transformer(py::module_& module) {
  model<DeqTransformerImpl, TransformerOptions>(module, "DeqTransformer")
      .def(
          "read",
          [](DeqTransformerImpl& self, const torch::Tensor& tokens, int64_t capacity,
             const std::vector<torch::Tensor>& memory, const PythonPlan& plan) {
            TransformerMemory before{.capacity = capacity};
            if (!memory.empty())
              std::tie(before.z, before.u) = std::tie(memory.at(0), memory.at(1));
            return computed([&] {
              auto reading = self.read(tokens, before, plan.plan());
              plan.raise_failures(reading.equilibrium);
              std::vector<torch::Tensor> after;
              if (reading.memory.length() > 0) after = {reading.memory.z, reading.memory.u};
              return std::tuple(reading.hidden, after, reading.equilibrium);
            });
          },
          py::arg("tokens"), py::arg("capacity"), py::arg("memory"), py::arg("plan"))
      .def("cost", &DeqTransformerImpl::cost, py::arg("hidden"), py::arg("targets"), Unlocked())
      .def("log_probabilities", &DeqTransformerImpl::log_probabilities, py::arg("hidden"),
           Unlocked())
      .def("tied", &DeqTransformerImpl::tied);
}

void bind_looped(py::module_& module) {
  model<LoopedTransformerImpl, LoopedTransformerOptions>(module, "LoopedTransformer")
      .def(
          "read",
          [](LoopedTransformerImpl& self, const torch::Tensor& tokens, int64_t capacity,
             const std::vector<torch::Tensor>& memory, const PythonPlan& plan) {
            return computed([&] {
              auto reading =
                  self.read(tokens, {.capacity = capacity, .layers = memory}, plan.plan());
              plan.raise_failures(reading.equilibrium);
              return std::tuple(reading.hidden, reading.memory.layers, reading.equilibrium);
            });
          },
          py::arg("tokens"), py::arg("capacity"), py::arg("memory"), py::arg("plan"))
      .def(
          "read_with_exits",
          [](LoopedTransformerImpl& self, const torch::Tensor& tokens, int64_t capacity,
             const std::vector<torch::Tensor>& memory, int64_t loops, double rtol) {
            return computed([&] {
              auto reading = self.read_with_exits(tokens, {.capacity = capacity, .layers = memory},
                                                  {.loops = loops, .rtol = rtol});
              return std::tuple(reading.hidden, reading.memory.layers, reading.loops);
            });
          },
          py::arg("tokens"), py::arg("capacity"), py::arg("memory"), py::arg("loops"),
          py::arg("rtol"))
      .def("cost", &LoopedTransformerImpl::cost, py::arg("hidden"), py::arg("targets"), Unlocked())
      .def("log_probabilities", &LoopedTransformerImpl::log_probabilities, py::arg("hidden"),
           Unlocked())
      .def("tied", &LoopedTransformerImpl::tied);
}

// What the explicit networks remember, as Python has it: a list of tensors.

TransformerXlMemory remembered(const TransformerXLImpl&, int64_t capacity, const Tensors& memory) {
  return {.capacity = capacity, .layers = memory};
}

Gpt2Memory remembered(const GPT2Impl&, int64_t capacity, const Tensors& memory) {
  Gpt2Memory before{.capacity = capacity};
  if (!memory.empty()) before.tokens = memory.front();
  return before;
}

QrnnMemory remembered(const AwdQrnnImpl& model, int64_t /*capacity*/, const Tensors& memory) {
  return QrnnMemory::of(memory, model.options().layers);
}

torch::Tensor remembered(const RelationalMemoryImpl&, int64_t /*capacity*/, const Tensors& memory) {
  return memory.empty() ? torch::Tensor() : memory.front();
}

Tensors tensors_of(const TransformerXlMemory& memory, int64_t /*capacity*/) {
  return memory.layers;
}

Tensors tensors_of(const Gpt2Memory& memory, int64_t /*capacity*/) {
  return memory.length() > 0 ? Tensors{memory.tokens} : Tensors();
}

/// A state has one size: it is given back or it is not.
Tensors tensors_of(const QrnnMemory& memory, int64_t capacity) {
  return capacity > 0 ? memory.tensors() : Tensors();
}

Tensors tensors_of(const torch::Tensor& memory, int64_t capacity) {
  return capacity > 0 ? Tensors{memory} : Tensors();
}

/// What a network adds to the loss of a training, if it does.
template <class Output>
std::optional<torch::Tensor> penalty_of(const Output& output) {
  if constexpr (requires { output.penalty; }) {
    if (output.penalty.defined()) return output.penalty;
  }
  return std::nullopt;
}

template <class Model, class Options>
void bind_explicit(py::module_& module, const char* name) {
  model<Model, Options>(module, name)
      .def(
          "forward",
          [](Model& self, const torch::Tensor& tokens, const torch::Tensor& targets,
             int64_t capacity, const Tensors& memory) {
            auto output = self.forward(tokens, targets, remembered(self, capacity, memory));
            return std::tuple(output.nll, output.reading.hidden,
                              tensors_of(output.reading.memory, capacity), penalty_of(output));
          },
          py::arg("tokens"), py::arg("targets"), py::arg("capacity"), py::arg("memory"), Unlocked())
      .def(
          "read",
          [](Model& self, const torch::Tensor& tokens, int64_t capacity, const Tensors& memory) {
            auto reading = self.read(tokens, remembered(self, capacity, memory));
            return std::pair(reading.hidden, tensors_of(reading.memory, capacity));
          },
          py::arg("tokens"), py::arg("capacity"), py::arg("memory"), Unlocked())
      .def("log_probabilities", &Model::log_probabilities, py::arg("hidden"), Unlocked())
      .def("tied", &Model::tied);
}

}  // namespace

void bind_language_models(py::module_& module) {
  bind_language_options(module);
  bind_deq_transformer(module);
  bind_looped(module);
  bind_explicit<TransformerXLImpl, TransformerXlOptions>(module, "TransformerXL");
  bind_explicit<GPT2Impl, Gpt2Options>(module, "GPT2");
  bind_explicit<AwdQrnnImpl, QrnnOptions>(module, "AwdQrnn");
  bind_explicit<RelationalMemoryImpl, RelationalMemoryOptions>(module, "RelationalMemory");
}

}  // namespace deq::python
