#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <optional>

#include "deq/models/explicit/stem.h"

namespace deq::models {

struct ResNetOptions {
  std::array<int64_t, 4> blocks = {2, 2, 2, 2};  ///< residual blocks of each stage, all ≥ 1
  bool bottleneck = false;  ///< blocks of 1×1, 3×3 and 1×1 convolutions in place of two of 3×3
  Stem stem = Stem::Cifar;
  int64_t classes = 10;  ///< classes ≥ 1
};

ResNetOptions resnet18(Stem stem = Stem::Cifar, int64_t classes = 10);
ResNetOptions resnet50(Stem stem = Stem::Cifar, int64_t classes = 10);
ResNetOptions resnet101(Stem stem = Stem::Cifar, int64_t classes = 10);

/// A residual network (He et al., 2016), as torchvision has it: the names of its parameters and
/// buffers, its initialisation, and the stride of a bottleneck in the 3×3 convolution.
class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const ResNetOptions& options = {},
                      const std::optional<at::Generator>& generator = {});

  /// Logits [B, classes] of images [B, 3, H, W].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  Stem stem_;
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_;
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace deq::models
