#pragma once

#include <torch/nn/modules/normalization.h>

#include <vector>

#include "deq/models/mdeq/options.h"
#include "models/mdeq/convolution.h"

namespace deq::models {

/// What one scale i gets from all scales j:
///   GN conv₁ₓ₁ ReLU( x_i + Σ_{j<i} down_{j→i}(x_j) + Σ_{j>i} up_{j→i}(x_j) ),
/// down: i − j stride-2 convolutions, each with GN, and ReLU between them;
/// up: conv₁ₓ₁ and GN, then every entry repeated 2^(j−i) times in both directions.
class MdeqFusion {
 public:
  /// Registers its layers in `owner`, under fuse_layers and post_fuse_layers.
  MdeqFusion(torch::nn::Module& owner, const MdeqOptions& options, size_t scale,
             const OptionalGenerator& generator);

  void prepare(Context& context) const;
  /// In the type of the state, whatever that of x is, and in `target` if there is one.
  torch::Tensor step(const State& x, MdeqPrepared& prepared, torch::ScalarType type,
                     const torch::Tensor& target);

 private:
  struct NormedConvolution {
    MdeqConvolution conv;
    torch::nn::GroupNorm norm;
    /// GN(conv x), plus `addend` where there is one, then ReLU where asked for.
    torch::Tensor step(const torch::Tensor& x, MdeqPrepared& prepared,
                       const torch::Tensor& addend = {}, bool relu = false) const;
  };
  using Chain = std::vector<NormedConvolution>;

  size_t scale_;
  std::vector<Chain> sources_;  // from every scale; none from its own
  NormedConvolution post_;
};

}  // namespace deq::models
