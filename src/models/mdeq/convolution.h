#pragma once

#include <torch/nn/pimpl.h>

#include "deq/nn/weight_norm.h"
#include "models/mdeq/layers.h"
#include "models/mdeq/prepared.h"

namespace deq::models {

struct MdeqConvolutionOptions {
  int64_t in = 1, out = 1;
  int64_t kernel = 3;  ///< odd; padded to keep the size
  int64_t stride = 1;
  bool weight_norm = false;
};

/// A bias-free convolution inside the cell: its weight comes from the context.
class MdeqConvolutionImpl : public torch::nn::Module {
 public:
  MdeqConvolutionImpl(const MdeqConvolutionOptions& options, const OptionalGenerator& generator);

  void prepare(Context& context) const;
  torch::Tensor step(const torch::Tensor& x, MdeqPrepared& prepared) const;

 private:
  int64_t stride_;
  LayerWeight weight_;
};
TORCH_MODULE(MdeqConvolution);

}  // namespace deq::models
