#pragma once

#include <torch/nn/modules/normalization.h>

#include "deq/models/mdeq/options.h"
#include "deq/nn/variational_dropout.h"
#include "models/mdeq/convolution.h"

namespace deq::models {

/// The residual block of one scale, with injection u where it has one:
///   y = GN₂(m ⊙ conv₂ ReLU GN₁(conv₁ x) + u),   block(x) = GN₃ ReLU(y + x),
/// m a dropout mask of whole channels.
class MdeqBlockImpl : public torch::nn::Module {
 public:
  MdeqBlockImpl(const MdeqOptions& options, size_t scale, const OptionalGenerator& generator);

  void prepare(Context& context, int64_t batch, const torch::TensorOptions& options) const;
  /// An undefined injection is none. What is convolved of `zeros` is the same for all samples.
  torch::Tensor step(const torch::Tensor& x, const torch::Tensor& injection, MdeqPrepared& prepared,
                     bool zeros);

 private:
  int64_t channels_;
  MdeqConvolution conv1_, conv2_;
  torch::nn::GroupNorm gn1_, gn2_, gn3_;
  VariationalDropout drop_;
};

}  // namespace deq::models
