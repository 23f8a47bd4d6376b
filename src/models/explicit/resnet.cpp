#include "deq/models/explicit/resnet.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/require.h"
#include "models/explicit/explicit_layers.h"

namespace deq::models {
namespace {

using models::convolution;

constexpr int64_t kWidth = 64;  // of the first stage; each further one has twice as many channels
constexpr int64_t kExpansion = 4;  // of a bottleneck's output over its inner channels

/// out = ReLU(norm(conv(… ReLU(norm(conv(x))) …)) + shortcut(x)).
class ResidualBlockImpl : public torch::nn::Module {
 public:
  ResidualBlockImpl(int64_t in, int64_t width, int64_t stride, bool bottleneck) {
    const int64_t out = bottleneck ? width * kExpansion : width;
    if (bottleneck) {
      add(in, width, 1, 1);
      add(width, width, 3, stride);
      add(width, out, 1, 1);
    } else {
      add(in, width, 3, stride);
      add(width, out, 3, 1);
    }
    if (stride == 1 && in == out) return;
    shortcut_ = register_module("downsample", torch::nn::Sequential(convolution(in, out, 1, stride),
                                                                    torch::nn::BatchNorm2d(out)));
  }

  // Nothing on the tape needs what ReLU and the sum overwrite.
  torch::Tensor forward(const torch::Tensor& x) {
    auto out = x;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      if (i > 0) out.relu_();
      out = norms_[i](convolutions_[i](out));
    }
    return out.add_(shortcut_ ? shortcut_->forward(x) : x).relu_();
  }

 private:
  void add(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    const std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(register_module("conv" + number, convolution(in, out, kernel, stride)));
    norms_.push_back(register_module("bn" + number, torch::nn::BatchNorm2d(out)));
  }

  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential shortcut_{nullptr};
};
TORCH_MODULE(ResidualBlock);

}  // namespace

ResNetOptions resnet18(Stem stem, int64_t classes) {
  return {.blocks = {2, 2, 2, 2}, .bottleneck = false, .stem = stem, .classes = classes};
}

ResNetOptions resnet50(Stem stem, int64_t classes) {
  return {.blocks = {3, 4, 6, 3}, .bottleneck = true, .stem = stem, .classes = classes};
}

ResNetOptions resnet101(Stem stem, int64_t classes) {
  return {.blocks = {3, 4, 23, 3}, .bottleneck = true, .stem = stem, .classes = classes};
}

ResNetImpl::ResNetImpl(const ResNetOptions& options, const std::optional<at::Generator>& generator)
    : stem_(options.stem) {
  const auto& blocks = options.blocks;
  require(*std::min_element(blocks.begin(), blocks.end()) >= 1,
          "resnet: blocks = {}, must all be ≥ 1", c10::IntArrayRef(blocks));
  require(options.classes >= 1, "resnet: classes = {}, must be ≥ 1", options.classes);
  conv1_ = register_module(
      "conv1", stem_ == Stem::Cifar ? convolution(3, kWidth, 3) : convolution(3, kWidth, 7, 2));
  bn1_ = register_module("bn1", torch::nn::BatchNorm2d(kWidth));
  int64_t channels = kWidth;
  for (size_t stage = 0; stage < stages_.size(); ++stage) {
    stages_[stage] = register_module("layer" + std::to_string(stage + 1), torch::nn::Sequential());
    const int64_t width = kWidth << stage;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      stages_[stage]->push_back(ResidualBlock(channels, width, stride, options.bottleneck));
      channels = options.bottleneck ? width * kExpansion : width;
    }
  }
  fc_ = register_module("fc", torch::nn::Linear(channels, options.classes));
  models::draw_convolutions(*this, models::Fan::Out, generator);
  models::draw_linear(fc_, generator);
}

torch::Tensor ResNetImpl::forward(const torch::Tensor& images) {
  models::require_images("resnet", images);
  auto features = bn1_(conv1_(images)).relu_();
  if (stem_ == Stem::ImageNet) features = torch::max_pool2d(features, 3, 2, 1);
  for (auto& stage : stages_) features = stage->forward(features);
  return fc_(models::global_average(features));
}

}  // namespace deq::models
