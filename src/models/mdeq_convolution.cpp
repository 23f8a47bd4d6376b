#include "models/mdeq_convolution.h"

#include <cmath>

#include "kernels/convolution.h"

namespace deq {
namespace {

torch::Tensor initial_weight(const MdeqConvolutionOptions& options,
                             const OptionalGenerator& generator) {
  auto weight = torch::empty({options.out, options.in, options.kernel, options.kernel});
  if (!options.weight_norm) return weight.normal_(0, kMdeqSpread, generator);
  // A normalised weight starts at the size that lets f move the state from the first step on.
  const double bound = 1 / std::sqrt(options.in * options.kernel * options.kernel);
  return weight.uniform_(-bound, bound, generator);
}

}  // namespace

MdeqConvolutionImpl::MdeqConvolutionImpl(const MdeqConvolutionOptions& options,
                                         const OptionalGenerator& generator)
    : stride_(options.stride),
      padding_(options.kernel / 2),
      weight_(*this, "weight", initial_weight(options, generator), options.weight_norm) {}

torch::Tensor MdeqConvolutionImpl::step(const torch::Tensor& x, MdeqPrepared& prepared) const {
  const auto& weight = prepared.next();
  if (padding_ == 1 && stride_ == 1) return kernels::convolution3x3(x, weight);
  return torch::conv2d(x, weight, /*bias=*/{}, stride_, padding_);
}

}  // namespace deq
