#include "models/mdeq/convolution.h"

#include <cmath>

#include "kernels/images/convolution.h"

namespace deq::models {
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
      weight_(*this, "weight", initial_weight(options, generator), options.weight_norm) {}

void MdeqConvolutionImpl::prepare(Context& context) const {
  auto weight = weight_.value();
  // In the order of the state, or every step would bring it there; CPU kernels have their own.
  if (weight.is_cuda()) weight = weight.contiguous(kMdeqOrder);
  context.push_back(weight);
}

torch::Tensor MdeqConvolutionImpl::step(const torch::Tensor& x, MdeqPrepared& prepared) const {
  return kernels::convolution(x, prepared.next(), stride_);
}

}  // namespace deq::models
