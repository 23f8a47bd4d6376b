#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <optional>

#include "deq/models/explicit/stem.h"

namespace deq::models {

struct DenseNetOptions {
  std::array<int64_t, 4> layers = {6, 12, 24, 16};  ///< of each dense block, all ≥ 1
  int64_t growth = 32;  ///< channels that a layer adds ≥ 1; the stem makes twice as many
  Stem stem = Stem::Cifar;
  int64_t classes = 10;  ///< classes ≥ 1
};

DenseNetOptions densenet121(Stem stem = Stem::Cifar, int64_t classes = 10);
/// Layers of 6, 12, 64 and 48. With growth = 48 it is the network of 73 million parameters.
DenseNetOptions densenet264(Stem stem = Stem::Cifar, int64_t classes = 10, int64_t growth = 32);

/// A densely connected network with bottlenecks and compression (Huang et al., 2017), as
/// torchvision has it: the names of its parameters and buffers, and its initialisation.
class DenseNetImpl : public torch::nn::Module {
 public:
  explicit DenseNetImpl(const DenseNetOptions& options = {},
                        const std::optional<at::Generator>& generator = {});

  /// Logits [B, classes] of images [B, 3, H, W].
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Sequential features_{nullptr};
  torch::nn::Linear classifier_{nullptr};
};
TORCH_MODULE(DenseNet);

}  // namespace deq::models
