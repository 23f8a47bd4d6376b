// The models, whose tensors Python's modules share: python/deq/models.py.

#include "deq/models.h"

#include <memory>
#include <optional>
#include <utility>

#include "bindings.h"
#include "computed.h"
#include "options.h"
#include "plan.h"

namespace deq::python {
namespace {

using namespace models;

template <class Options>
OptionsClass<Options> model_options(py::module_& module, const char* name, const char* doc) {
  return {module, name, doc, [](const Options& options) { validate(options); }};
}

void bind_model_options(py::module_& module) {
  model_options<MdeqOptions>(module, "MdeqOptions", "A multiscale DEQ for images.")
      .field(
          "image_channels", [](auto& o) -> auto& { return o.image_channels; })
      .field(
          "channels", [](auto& o) -> auto& { return o.channels; })
      .field(
          "blocks", [](auto& o) -> auto& { return o.blocks; })
      .field(
          "big_kernels", [](auto& o) -> auto& { return o.big_kernels; })
      .field(
          "expansion", [](auto& o) -> auto& { return o.expansion; })
      .field(
          "groups", [](auto& o) -> auto& { return o.groups; })
      .field(
          "dropout", [](auto& o) -> auto& { return o.dropout; })
      .field(
          "weight_norm", [](auto& o) -> auto& { return o.weight_norm; })
      .field(
          "block_norm_affine", [](auto& o) -> auto& { return o.block_norm_affine; })
      .field(
          "fuse_norm_affine", [](auto& o) -> auto& { return o.fuse_norm_affine; })
      .field(
          "post_norm_affine", [](auto& o) -> auto& { return o.post_norm_affine; })
      .field(
          "downsample_times", [](auto& o) -> auto& { return o.downsample_times; })
      .field(
          "head_channels", [](auto& o) -> auto& { return o.head_channels; })
      .field(
          "final_channels", [](auto& o) -> auto& { return o.final_channels; })
      .field(
          "classes", [](auto& o) -> auto& { return o.classes; })
      .done();
  model_options<MonotoneOptions>(module, "MonotoneOptions",
                                 "A monotone operator equilibrium network for square images.")
      .field(
          "image_channels", [](auto& o) -> auto& { return o.image_channels; })
      .field(
          "image_size", [](auto& o) -> auto& { return o.image_size; })
      .field(
          "channels", [](auto& o) -> auto& { return o.channels; })
      .field(
          "strength", [](auto& o) -> auto& { return o.strength; })
      .field(
          "splitting", [](auto& o) -> auto& { return o.splitting; })
      .field(
          "alpha", [](auto& o) -> auto& { return o.alpha; })
      .field(
          "classes", [](auto& o) -> auto& { return o.classes; })
      .done();
  // Checked by the model itself.
  OptionsClass<ResNetOptions>(module, "ResNetOptions", "A residual network for images.",
                              [](const ResNetOptions&) {})
      .field(
          "blocks", [](auto& o) -> auto& { return o.blocks; })
      .field(
          "bottleneck", [](auto& o) -> auto& { return o.bottleneck; })
      .field(
          "stem", [](auto& o) -> auto& { return o.stem; })
      .field(
          "classes", [](auto& o) -> auto& { return o.classes; })
      .done();
  OptionsClass<DenseNetOptions>(module, "DenseNetOptions",
                                "A densely connected network for images.",
                                [](const DenseNetOptions&) {})
      .field(
          "layers", [](auto& o) -> auto& { return o.layers; })
      .field(
          "growth", [](auto& o) -> auto& { return o.growth; })
      .field(
          "stem", [](auto& o) -> auto& { return o.stem; })
      .field(
          "classes", [](auto& o) -> auto& { return o.classes; })
      .done();
  OptionsClass<InceptionOptions>(module, "InceptionOptions", "Inception-V2 for images.",
                                 [](const InceptionOptions&) {})
      .field(
          "stem_channels", [](auto& o) -> auto& { return o.stem_channels; })
      .field(
          "stem_outputs", [](auto& o) -> auto& { return o.stem_outputs; })
      .field(
          "stem", [](auto& o) -> auto& { return o.stem; })
      .field(
          "classes", [](auto& o) -> auto& { return o.classes; })
      .done();
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
}

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

Named items(const torch::OrderedDict<std::string, torch::Tensor>& tensors) {
  return tensors.pairs();
}

/// What all models have. Python's modules are made of these tensors, not of copies.
template <class Model, class Options>
py::class_<Model, std::shared_ptr<Model>> model(py::module_& module, const char* name) {
  return py::class_<Model, std::shared_ptr<Model>>(module, name)
      .def(py::init([](const Options& options, const std::optional<at::Generator>& generator) {
             return std::make_shared<Model>(options, generator);
           }),
           py::arg("options"), py::arg("generator"))
      .def("named_parameters", [](const Model& self) { return items(self.named_parameters()); })
      .def("named_buffers", [](const Model& self) { return items(self.named_buffers()); })
      .def(
          "train", [](Model& self, bool mode) { self.train(mode); }, py::arg("mode"));
}

/// One that solves for an equilibrium of images.
template <class Model, class Options>
void bind_classifier(py::module_& module, const char* name) {
  model<Model, Options>(module, name)
      .def(
          "forward",
          [](Model& self, const torch::Tensor& images, const PythonPlan& plan) {
            return computed([&] {
              auto output = self.forward(images, plan.plan());
              plan.raise_failures(output.equilibrium);
              return std::pair(output.logits, output.equilibrium);
            });
          },
          py::arg("images"), py::arg("plan"));
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

void bind_relational_memory(py::module_& module) {
  using Memory = std::optional<torch::Tensor>;
  model<RelationalMemoryImpl, RelationalMemoryOptions>(module, "RelationalMemory")
      .def(
          "forward",
          [](RelationalMemoryImpl& self, const torch::Tensor& tokens, const torch::Tensor& targets,
             const Memory& memory) {
            auto output = self.forward(tokens, targets, memory.value_or(torch::Tensor()));
            return std::tuple(output.nll, output.reading.hidden, output.reading.memory);
          },
          py::arg("tokens"), py::arg("targets"), py::arg("memory"), Unlocked())
      .def(
          "read",
          [](RelationalMemoryImpl& self, const torch::Tensor& tokens, const Memory& memory) {
            auto reading = self.read(tokens, memory.value_or(torch::Tensor()));
            return std::pair(reading.hidden, reading.memory);
          },
          py::arg("tokens"), py::arg("memory"), Unlocked())
      .def("log_probabilities", &RelationalMemoryImpl::log_probabilities, py::arg("hidden"),
           Unlocked())
      .def("tied", &RelationalMemoryImpl::tied);
}

void bind_qrnn(py::module_& module) {
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
  const auto remembered = [](const AwdQrnnImpl& self, const std::vector<torch::Tensor>& memory) {
    return QrnnMemory::of(memory, self.options().layers);
  };
  model<AwdQrnnImpl, QrnnOptions>(module, "AwdQrnn")
      .def(
          "forward",
          [remembered](AwdQrnnImpl& self, const torch::Tensor& tokens, const torch::Tensor& targets,
                       const std::vector<torch::Tensor>& memory) {
            auto output = self.forward(tokens, targets, remembered(self, memory));
            std::optional<torch::Tensor> penalty;
            if (output.penalty.defined()) penalty = output.penalty;
            return std::tuple(output.nll, output.reading.hidden, output.reading.memory.tensors(),
                              penalty);
          },
          py::arg("tokens"), py::arg("targets"), py::arg("memory"), Unlocked())
      .def(
          "read",
          [remembered](AwdQrnnImpl& self, const torch::Tensor& tokens,
                       const std::vector<torch::Tensor>& memory) {
            auto reading = self.read(tokens, remembered(self, memory));
            return std::pair(reading.hidden, reading.memory.tensors());
          },
          py::arg("tokens"), py::arg("memory"), Unlocked())
      .def("log_probabilities", &AwdQrnnImpl::log_probabilities, py::arg("hidden"), Unlocked())
      .def("tied", &AwdQrnnImpl::tied);
}

}  // namespace

void bind_models(py::module_& module) {
  bind_model_options(module);
  module.def(
      "mdeq_preset", [](const std::string& name) { return mdeq_preset(name); }, py::arg("name"));
  module.def("mdeq_preset_names", &mdeq_preset_names);

  bind_classifier<MdeqClassifierImpl, MdeqOptions>(module, "MdeqClassifier");
  bind_classifier<MonotoneClassifierImpl, MonotoneOptions>(module, "MonotoneClassifier");
  model<ResNetImpl, ResNetOptions>(module, "ResNet")
      .def("forward", &ResNetImpl::forward, py::arg("images"), Unlocked());
  model<DenseNetImpl, DenseNetOptions>(module, "DenseNet")
      .def("forward", &DenseNetImpl::forward, py::arg("images"), Unlocked());
  model<InceptionImpl, InceptionOptions>(module, "Inception")
      .def("forward", &InceptionImpl::forward, py::arg("images"), Unlocked());

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
  model<TransformerXLImpl, TransformerXlOptions>(module, "TransformerXL")
      .def(
          "forward",
          [](TransformerXLImpl& self, const torch::Tensor& tokens, const torch::Tensor& targets,
             int64_t capacity, const std::vector<torch::Tensor>& memory) {
            auto output = self.forward(tokens, targets, {.capacity = capacity, .layers = memory});
            return std::tuple(output.nll, output.reading.hidden, output.reading.memory.layers);
          },
          py::arg("tokens"), py::arg("targets"), py::arg("capacity"), py::arg("memory"), Unlocked())
      .def(
          "read",
          [](TransformerXLImpl& self, const torch::Tensor& tokens, int64_t capacity,
             const std::vector<torch::Tensor>& memory) {
            auto reading = self.read(tokens, {.capacity = capacity, .layers = memory});
            return std::pair(reading.hidden, reading.memory.layers);
          },
          py::arg("tokens"), py::arg("capacity"), py::arg("memory"), Unlocked())
      .def("log_probabilities", &TransformerXLImpl::log_probabilities, py::arg("hidden"),
           Unlocked())
      .def("tied", &TransformerXLImpl::tied);
  bind_looped(module);
  bind_relational_memory(module);
  bind_qrnn(module);
}

}  // namespace deq::python
