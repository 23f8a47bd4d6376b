#include "models/transformer/linear.h"

#include <cmath>

#include "kernels/common/tensor_cores.h"

namespace deq::models {
namespace {

torch::Tensor initial_linear_weight(const TransformerLinearOptions& options,
                                    const std::optional<at::Generator>& generator) {
  auto weight = torch::empty({options.out, options.in});
  if (options.spread >= 0) {
    weight.normal_(0, options.spread, generator);
  } else {
    const double bound = 1 / std::sqrt(static_cast<double>(options.in));
    weight.uniform_(-bound, bound, generator);
  }
  return options.pointwise_convolution ? weight.unsqueeze(-1) : weight;
}

}  // namespace

TransformerLinear::TransformerLinear(const TransformerLinearOptions& options,
                                     const std::optional<at::Generator>& generator)
    : weight_(*this, "weight", initial_linear_weight(options, generator), options.normalised) {
  if (options.bias) bias_ = register_parameter("bias", torch::zeros({options.out}));
}

torch::Tensor TransformerLinear::bias_for(const torch::Tensor& matrix) const {
  return kernels::with_zeros(bias_.to(matrix.scalar_type()), matrix.size(1), matrix.scalar_type());
}

torch::Tensor TransformerLinear::matrix(const Groups& groups) const {
  return kernels::aligned_matrix(weight_.value().flatten(1), groups.out, groups.in).t();
}

}  // namespace deq::models
