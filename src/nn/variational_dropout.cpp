#include "deq/nn/variational_dropout.h"

#include "core/require.h"

namespace deq {

VariationalDropoutImpl::VariationalDropoutImpl(double rate) : rate_(rate) {
  require(rate >= 0 && rate < 1, "dropout: rate = {:g}, must be in [0, 1)", rate);
}

torch::Tensor VariationalDropoutImpl::mask(c10::IntArrayRef shape,
                                           const torch::TensorOptions& options) const {
  if (!is_training() || rate_ == 0) return {};
  const double kept = 1 - rate_;
  return torch::empty(shape, options).bernoulli_(kept).div_(kept);
}

}  // namespace deq
