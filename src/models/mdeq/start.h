#pragma once

#include <torch/nn/modules/container/sequential.h>

#include <vector>

#include "deq/core/state_layout.h"
#include "deq/models/mdeq/options.h"
#include "models/mdeq/layers.h"

namespace deq::models {

/// A start predicted from the injection. Each scale's is
///   conv₁ₓ₁ ReLU GN conv₃ₓ₃ of the injection, averaged down to its size,
/// whose last convolution is zero at first: then all of it is, as the usual start.
class MdeqStart {
 public:
  /// Registers its layers in `owner`, under start.
  MdeqStart(torch::nn::Module& owner, const MdeqOptions& options,
            const OptionalGenerator& generator);

  State predict(const torch::Tensor& injection);

 private:
  std::vector<torch::nn::Sequential> scales_;
};

}  // namespace deq::models
