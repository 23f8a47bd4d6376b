#include "models/recurrent/qrnn_layer.h"

#include <ATen/ops/dropout.h>

#include <cmath>
#include <vector>

#include "kernels/common/affine.h"

namespace deq::models {

QrnnLayer::QrnnLayer(const QrnnLayerSizes& sizes, double weight_dropout,
                     const std::optional<at::Generator>& generator)
    : sizes_(sizes), weight_dropout_(weight_dropout) {
  // As torch's linear layers start.
  const auto columns = sizes.window * sizes.in;
  const double bound = 1 / std::sqrt(static_cast<double>(columns));
  weight_ = register_parameter(
      "weight", torch::empty({3 * sizes.out, columns}).uniform_(-bound, bound, generator));
  bias_ =
      register_parameter("bias", torch::empty({3 * sizes.out}).uniform_(-bound, bound, generator));
}

kernels::ForgetPool QrnnLayer::forward(const torch::Tensor& inputs, const torch::Tensor& state) {
  const auto before = sizes_.window - 1, length = inputs.size(1) - before;
  auto seen = inputs;
  if (before > 0) {
    std::vector<torch::Tensor> shifted;
    for (int64_t i = 0; i <= before; ++i) shifted.push_back(inputs.narrow(1, before - i, length));
    seen = torch::cat(shifted, -1);
  }
  const auto weight = at::dropout(weight_, weight_dropout_, is_training());
  const auto y = kernels::linear(seen, weight, bias_);
  return kernels::forget_pool(
      y, state.defined() ? state : torch::zeros({inputs.size(0), sizes_.out}, inputs.options()));
}

}  // namespace deq::models
