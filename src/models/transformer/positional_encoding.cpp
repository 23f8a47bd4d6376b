#include "deq/models/transformer/positional_encoding.h"

#include "core/require.h"

namespace deq::models {

PositionalEncodingImpl::PositionalEncodingImpl(int64_t width) {
  require(width >= 2 && width % 2 == 0,
          "positions: a width of {}, must be even and ≥ 2 for sines and cosines", width);
  const auto exponents = torch::arange(0, width, 2, torch::kFloat64) / width;
  frequencies_ = register_buffer("inv_freq", torch::pow(10000.0, -exponents).to(torch::kFloat32));
}

torch::Tensor PositionalEncodingImpl::forward(int64_t length, int64_t clamp) {
  auto distances = torch::arange(length - 1, -1, -1, frequencies_.options());
  if (clamp > 0) distances.clamp_max_(clamp);
  const auto angles = distances.unsqueeze(1) * frequencies_;
  return torch::cat({angles.sin(), angles.cos()}, 1);
}

}  // namespace deq::models
