#include "deq/models/explicit/densenet.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/require.h"
#include "models/explicit/explicit_layers.h"

namespace deq::models {
namespace {

using models::convolution;

constexpr int64_t kBottleneck = 4;  // channels between a layer's convolutions, in units of growth

/// x → [x, conv2(ReLU(norm2(conv1(ReLU(norm1(x))))))]: one copy of x per layer, and ReLU in place,
/// are all that the tape keeps of the growing features.
class DenseLayerImpl : public torch::nn::Module {
 public:
  DenseLayerImpl(int64_t in, int64_t growth)
      : norm1_(register_module("norm1", torch::nn::BatchNorm2d(in))),
        conv1_(register_module("conv1", convolution(in, kBottleneck * growth, 1))),
        norm2_(register_module("norm2", torch::nn::BatchNorm2d(kBottleneck * growth))),
        conv2_(register_module("conv2", convolution(kBottleneck * growth, growth, 3))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    const auto squeezed = conv1_(norm1_(x).relu_());
    return torch::cat({x, conv2_(norm2_(squeezed).relu_())}, 1);
  }

 private:
  torch::nn::BatchNorm2d norm1_;
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d norm2_;
  torch::nn::Conv2d conv2_;
};
TORCH_MODULE(DenseLayer);

class DenseBlockImpl : public torch::nn::Module {
 public:
  DenseBlockImpl(int64_t in, int64_t layers, int64_t growth) {
    for (int64_t i = 0; i < layers; ++i) {
      layers_.push_back(register_module("denselayer" + std::to_string(i + 1),
                                        DenseLayer(in + i * growth, growth)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : layers_) x = layer(x);
    return x;
  }

 private:
  std::vector<DenseLayer> layers_;
};
TORCH_MODULE(DenseBlock);

/// Half the channels, half the height and width.
class TransitionImpl : public torch::nn::Module {
 public:
  explicit TransitionImpl(int64_t channels)
      : norm_(register_module("norm", torch::nn::BatchNorm2d(channels))),
        conv_(register_module("conv", convolution(channels, channels / 2, 1))) {}

  torch::Tensor forward(const torch::Tensor& x) {
    return torch::avg_pool2d(conv_(norm_(x).relu_()), 2, 2);
  }

 private:
  torch::nn::BatchNorm2d norm_;
  torch::nn::Conv2d conv_;
};
TORCH_MODULE(Transition);

void add_stem(torch::nn::Sequential& features, Stem stem, int64_t channels) {
  features->push_back(
      "conv0", stem == Stem::Cifar ? convolution(3, channels, 3) : convolution(3, channels, 7, 2));
  features->push_back("norm0", torch::nn::BatchNorm2d(channels));
  features->push_back("relu0",
                      torch::nn::Functional([](const torch::Tensor& x) { return x.relu_(); }));
  if (stem == Stem::Cifar) return;
  features->push_back("pool0",
                      torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
}

}  // namespace

DenseNetOptions densenet121(Stem stem, int64_t classes) {
  return {.layers = {6, 12, 24, 16}, .growth = 32, .stem = stem, .classes = classes};
}

DenseNetOptions densenet264(Stem stem, int64_t classes, int64_t growth) {
  return {.layers = {6, 12, 64, 48}, .growth = growth, .stem = stem, .classes = classes};
}

DenseNetImpl::DenseNetImpl(const DenseNetOptions& options,
                           const std::optional<at::Generator>& generator) {
  const auto& layers = options.layers;
  require(*std::min_element(layers.begin(), layers.end()) >= 1,
          "densenet: layers = {}, must all be ≥ 1", c10::IntArrayRef(layers));
  require(options.growth >= 1, "densenet: growth = {}, must be ≥ 1", options.growth);
  require(options.classes >= 1, "densenet: classes = {}, must be ≥ 1", options.classes);
  features_ = register_module("features", torch::nn::Sequential());
  int64_t channels = 2 * options.growth;
  add_stem(features_, options.stem, channels);
  for (size_t block = 0; block < layers.size(); ++block) {
    const std::string number = std::to_string(block + 1);
    features_->push_back("denseblock" + number,
                         DenseBlock(channels, layers[block], options.growth));
    channels += layers[block] * options.growth;
    if (block + 1 == layers.size()) break;
    features_->push_back("transition" + number, Transition(channels));
    channels /= 2;
  }
  features_->push_back("norm5", torch::nn::BatchNorm2d(channels));
  classifier_ = register_module("classifier", torch::nn::Linear(channels, options.classes));
  models::draw_convolutions(*this, models::Fan::In, generator);
  models::draw_linear(classifier_, generator);
  const torch::NoGradGuard no_grad;
  classifier_->bias.zero_();
}

torch::Tensor DenseNetImpl::forward(const torch::Tensor& images) {
  models::require_images("densenet", images);
  return classifier_(models::global_average(features_->forward(images).relu_()));
}

}  // namespace deq::models
