#include "lab/networks/image_network.h"

#include <type_traits>
#include <utility>

#include "deq/models/explicit/densenet.h"
#include "deq/models/explicit/inception.h"
#include "deq/models/explicit/resnet.h"
#include "deq/models/mdeq/mdeq.h"
#include "deq/models/monotone/monotone.h"

namespace deq::lab {
namespace {

template <class Holder>
class EquilibriumNetwork final : public ImageNetwork {
 public:
  explicit EquilibriumNetwork(Holder model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  ImageScores forward(const torch::Tensor& images, const EquilibriumPlan& plan) override {
    auto output = model_->forward(images, plan);
    return {.logits = std::move(output.logits), .equilibria = {std::move(output.equilibrium)}};
  }

 private:
  Holder model_;
};

template <class Holder>
class ExplicitNetwork final : public ImageNetwork {
 public:
  explicit ExplicitNetwork(Holder model) : model_(std::move(model)) {}
  torch::nn::Module& module() override { return *model_; }
  ImageScores forward(const torch::Tensor& images, const EquilibriumPlan&) override {
    return {.logits = model_->forward(images), .equilibria = {}};
  }

 private:
  Holder model_;
};

models::ResNetOptions options_of(const ResNetModel& model) {
  switch (model.depth) {
    case ResNetDepth::Layers50:
      return models::resnet50(model.stem, model.classes);
    case ResNetDepth::Layers101:
      return models::resnet101(model.stem, model.classes);
    case ResNetDepth::Layers18:
      break;
  }
  return models::resnet18(model.stem, model.classes);
}

models::DenseNetOptions options_of(const DenseNetModel& model) {
  auto options = model.depth == DenseNetDepth::Layers264
                     ? models::densenet264(model.stem, model.classes)
                     : models::densenet121(model.stem, model.classes);
  options.growth = model.growth;
  return options;
}

}  // namespace

std::unique_ptr<ImageNetwork> make_image_network(const ImageModel& model, at::Generator generator) {
  if (const auto* mdeq = std::get_if<models::MdeqOptions>(&model)) {
    return std::make_unique<EquilibriumNetwork<models::MdeqClassifier>>(
        models::MdeqClassifier(*mdeq, generator));
  }
  if (const auto* monotone = std::get_if<models::MonotoneOptions>(&model)) {
    return std::make_unique<EquilibriumNetwork<models::MonotoneClassifier>>(
        models::MonotoneClassifier(*monotone, generator));
  }
  if (const auto* resnet = std::get_if<ResNetModel>(&model)) {
    return std::make_unique<ExplicitNetwork<models::ResNet>>(
        models::ResNet(options_of(*resnet), generator));
  }
  if (const auto* inception = std::get_if<InceptionModel>(&model)) {
    return std::make_unique<ExplicitNetwork<models::Inception>>(
        models::Inception(models::inception_v2(inception->stem, inception->classes), generator));
  }
  return std::make_unique<ExplicitNetwork<models::DenseNet>>(
      models::DenseNet(options_of(std::get<DenseNetModel>(model)), generator));
}

int64_t classes_of(const ImageModel& model) {
  return std::visit([](const auto& chosen) { return chosen.classes; }, model);
}

}  // namespace deq::lab
