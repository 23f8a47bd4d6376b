// The models, whose tensors Python's modules share: python/deq/models/images.py.

#include "deq/models.h"

#include <utility>

#include "computed.h"
#include "model_bindings.h"
#include "plan.h"

namespace deq::python {
namespace {

using namespace models;

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
          "predicted_start", [](auto& o) -> auto& { return o.predicted_start; })
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
}

/// One that solves for an equilibrium of images.
template <class Model, class Options>
void bind_classifier(py::module_& module, const char* name) {
  model<Model, Options>(module, name)
      .def(
          "forward",
          [](Model& self, const torch::Tensor& images, const PythonPlan& plan, const State& start) {
            return computed([&] {
              auto output = self.forward(images, plan.plan(), start);
              plan.raise_failures(output.equilibrium);
              return std::pair(output.logits, output.equilibrium);
            });
          },
          py::arg("images"), py::arg("plan"), py::arg("start"));
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
  bind_language_models(module);
  bind_reasoner(module);
}

}  // namespace deq::python
