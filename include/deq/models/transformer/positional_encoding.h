#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace deq::models {

/// Sines and cosines of distances (Vaswani et al. 2017): the first half of the width has
/// sin(distance · ωᵢ), the second cos, with ωᵢ = 10000^(−2i/width). Buffer: inv_freq, the ωᵢ.
class PositionalEncodingImpl : public torch::nn::Module {
 public:
  explicit PositionalEncodingImpl(int64_t width);  ///< even, ≥ 2

  /// [length, width] of the distances length − 1, …, 1, 0: the farthest first, as the keys of the
  /// last position lie. Distances over `clamp` count as `clamp`, where it is > 0.
  torch::Tensor forward(int64_t length, int64_t clamp = 0);

 private:
  torch::Tensor frequencies_;
};
TORCH_MODULE(PositionalEncoding);

}  // namespace deq::models
