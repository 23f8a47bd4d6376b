#include "deq/models/explicit/inception.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include <algorithm>
#include <string>

#include "core/require.h"
#include "models/explicit/explicit_layers.h"

namespace deq::models {
namespace {

using models::convolution;

constexpr int64_t kColours = 3;
constexpr int64_t kFiltersPerColour = 8;  // of the separable first convolution

/// ReLU(norm(conv(x))).
class NormedConvolutionImpl : public torch::nn::Module {
 public:
  NormedConvolutionImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1)
      : conv_(register_module("conv", convolution(in, out, kernel, stride))),
        norm_(register_module("norm", torch::nn::BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& x) { return norm_(conv_(x)).relu_(); }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
};
TORCH_MODULE(NormedConvolution);

torch::nn::MaxPool2d halving_pool() {
  return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1));
}

/// The branches side by side, in the table's order.
class InceptionBlockImpl : public torch::nn::Module {
 public:
  InceptionBlockImpl(int64_t in, const InceptionModule& sizes) {
    const bool halves = sizes.pool == InceptionPool::Halving;
    const int64_t stride = halves ? 2 : 1;
    if (!halves) add("single", {NormedConvolution(in, sizes.single, 1)});
    add("triple", {NormedConvolution(in, sizes.reduced, 1),
                   NormedConvolution(sizes.reduced, sizes.triple, 3, stride)});
    add("double_triple", {NormedConvolution(in, sizes.double_reduced, 1),
                          NormedConvolution(sizes.double_reduced, sizes.double_triple, 3),
                          NormedConvolution(sizes.double_triple, sizes.double_triple, 3, stride)});
    auto pooled = register_module("pooled", torch::nn::Sequential());
    switch (sizes.pool) {
      case InceptionPool::Average:
        // The margin does not count: at an edge it is a mean over fewer pixels.
        pooled->push_back(torch::nn::AvgPool2d(
            torch::nn::AvgPool2dOptions(3).stride(1).padding(1).count_include_pad(false)));
        break;
      case InceptionPool::Max:
        pooled->push_back(
            torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(1).padding(1)));
        break;
      case InceptionPool::Halving:
        pooled->push_back(halving_pool());
        break;
    }
    if (!halves) pooled->push_back(NormedConvolution(in, sizes.projected, 1));
    branches_.push_back(std::move(pooled));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> outputs;
    outputs.reserve(branches_.size());
    for (auto& branch : branches_) outputs.push_back(branch->forward(x));
    return torch::cat(outputs, 1);
  }

 private:
  void add(const char* name, const std::vector<NormedConvolution>& convolutions) {
    auto branch = register_module(name, torch::nn::Sequential());
    for (const auto& each : convolutions) branch->push_back(each);
    branches_.push_back(std::move(branch));
  }

  std::vector<torch::nn::Sequential> branches_;
};
TORCH_MODULE(InceptionBlock);

void check(const std::string& name, const InceptionModule& module) {
  const bool halves = module.pool == InceptionPool::Halving;
  const auto check_size = [&](const char* field, int64_t size) {
    require(size >= 1, "inception: {} of module {} = {}, must be ≥ 1", field, name, size);
  };
  const auto check_branch = [&](const char* field, int64_t size) {
    if (!halves) return check_size(field, size);
    require(size == 0, "inception: {} of module {} = {}, must be 0 because the module halves",
            field, name, size);
  };
  check_branch("single", module.single);
  check_size("reduced", module.reduced);
  check_size("triple", module.triple);
  check_size("double_reduced", module.double_reduced);
  check_size("double_triple", module.double_triple);
  check_branch("projected", module.projected);
}

int64_t outputs_of(const InceptionModule& module, int64_t in) {
  return module.single + module.triple + module.double_triple +
         (module.pool == InceptionPool::Halving ? in : module.projected);
}

void add_stem(torch::nn::Sequential& features, const InceptionOptions& options) {
  const int64_t channels = options.stem_channels;
  if (options.stem == Stem::Cifar) {
    features->push_back("conv1", NormedConvolution(kColours, channels, 3));
  } else {
    constexpr int64_t kFilters = kColours * kFiltersPerColour;
    features->push_back("filters1",
                        torch::nn::Conv2d(torch::nn::Conv2dOptions(kColours, kFilters, 7)
                                              .stride(2)
                                              .padding(3)
                                              .groups(kColours)
                                              .bias(false)));
    features->push_back("conv1", NormedConvolution(kFilters, channels, 1));
    features->push_back("pool1", halving_pool());
  }
  features->push_back("reduction2", NormedConvolution(channels, channels, 1));
  features->push_back("conv2", NormedConvolution(channels, options.stem_outputs, 3));
  if (options.stem == Stem::ImageNet) features->push_back("pool2", halving_pool());
}

}  // namespace

// The publication's table contradicts itself in 4c and 4d: projections to 128 channels would make
// 608 of the modules' outputs, and 1056 of 4e's, where it has 576 and 1024. Its sizes of outputs
// hold here, so these two projections are to 96, as in the network that its authors released for
// TensorFlow. The one that is known from Caffe has 608 channels there.
std::vector<InceptionModule> inception_v2_modules() {
  using enum InceptionPool;
  return {{64, 64, 64, 64, 96, 32, Average},       {64, 64, 96, 64, 96, 64, Average},
          {0, 128, 160, 64, 96, 0, Halving},       {224, 64, 96, 96, 128, 128, Average},
          {192, 96, 128, 96, 128, 128, Average},   {160, 128, 160, 128, 160, 96, Average},
          {96, 128, 192, 160, 192, 96, Average},   {0, 128, 192, 192, 256, 0, Halving},
          {352, 192, 320, 160, 224, 128, Average}, {352, 192, 320, 192, 224, 128, Max}};
}

InceptionOptions inception_v2(Stem stem, int64_t classes) {
  return {.stem = stem, .classes = classes};
}

InceptionImpl::InceptionImpl(const InceptionOptions& options,
                             const std::optional<at::Generator>& generator) {
  require(options.stem_channels >= 1, "inception: stem_channels = {}, must be ≥ 1",
          options.stem_channels);
  require(options.stem_outputs >= 1, "inception: stem_outputs = {}, must be ≥ 1",
          options.stem_outputs);
  require(!options.modules.empty(), "inception: no modules, must be at least one");
  require(options.classes >= 1, "inception: classes = {}, must be ≥ 1", options.classes);
  features_ = register_module("features", torch::nn::Sequential());
  add_stem(features_, options);
  int64_t channels = options.stem_outputs;
  // As the publication counts: a resolution has a number, a module of it a letter.
  int resolution = 3;
  char letter = 'a';
  for (const auto& module : options.modules) {
    const std::string name = std::to_string(resolution) + letter++;
    check(name, module);
    features_->push_back("inception" + name, InceptionBlock(channels, module));
    channels = outputs_of(module, channels);
    if (module.pool != InceptionPool::Halving) continue;
    ++resolution;
    letter = 'a';
  }
  classifier_ = register_module("classifier", torch::nn::Linear(channels, options.classes));
  models::draw_convolutions(*this, models::Fan::In, generator);
  models::draw_linear(classifier_, generator);
}

torch::Tensor InceptionImpl::features(const torch::Tensor& images) {
  models::require_images("inception", images);
  return features_->forward(images);
}

torch::Tensor InceptionImpl::forward(const torch::Tensor& images) {
  return classifier_(models::global_average(features(images)));
}

}  // namespace deq::models
