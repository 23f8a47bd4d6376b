#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

namespace deq::lab {

/// The paper's target, h(x) = 1.5x³ + x² − 5x + 2 sin x − 3.
torch::Tensor synthetic_target(const torch::Tensor& x);

struct SyntheticSet {
  torch::Tensor x;  ///< [N, 1], uniform on [x_min, x_max]
  torch::Tensor y;  ///< [N, 1], h(x) + δ, δ ~ N(0, noise²)
};

SyntheticSet draw_synthetic(int64_t samples, double x_min, double x_max, double noise,
                            at::Generator generator);

}  // namespace deq::lab
