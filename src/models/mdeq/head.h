#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <vector>

#include "deq/models/mdeq/options.h"
#include "models/mdeq/layers.h"
#include "replay/replayed_function.h"

namespace deq::models {

/// The bottleneck that widens one scale to 4·planes channels:
///   ReLU(BN₃ conv₁ₓ₁ ReLU BN₂ conv₃ₓ₃ ReLU BN₁ conv₁ₓ₁ x + shortcut(x)).
class MdeqBottleneckImpl : public torch::nn::Module {
 public:
  static constexpr int64_t kWidening = 4;

  MdeqBottleneckImpl(int64_t in, int64_t planes, const OptionalGenerator& generator);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d conv1_, conv2_, conv3_;
  torch::nn::BatchNorm2d bn1_, bn2_, bn3_;
  torch::nn::Sequential shortcut_{nullptr};  // none where the widths agree already
};
TORCH_MODULE(MdeqBottleneck);

/// All scales to class scores: from the finest on, each is widened and the sum so far, halved in
/// size, is added to the next; then features, their mean over the image, and a linear classifier.
class MdeqHead {
 public:
  /// Registers its layers in `owner`.
  MdeqHead(torch::nn::Module& owner, const MdeqOptions& options,
           const OptionalGenerator& generator);
  torch::Tensor forward(const std::vector<torch::Tensor>& scales, Replay replay);

 private:
  torch::Tensor evaluate(const std::vector<torch::Tensor>& scales);

  std::vector<MdeqBottleneck> widen_;          // one per scale
  std::vector<torch::nn::Sequential> shrink_;  // from each scale except the last to the next
  torch::nn::Sequential features_;
  torch::nn::Linear classifier_{nullptr};
  std::shared_ptr<ReplayedFunction> replayed_;
};

}  // namespace deq::models
