#pragma once

#include <torch/nn/module.h>

#include <functional>

#include "deq/nn/equilibrium.h"

// What the gradients of a whole model's loss are held against.

namespace deq::test {

/// Every parameter's gradient of loss(implicit) is that of the loss with `steps` unrolled steps.
void expect_gradients_of_unrolled(
    const torch::nn::Module& model,
    const std::function<torch::Tensor(const EquilibriumOptions&)>& loss,
    const EquilibriumOptions& implicit, int64_t steps);

/// The slope of the loss along one random direction in the space of all parameters is that of
/// central differences. The model is left as it was, up to rounding.
void expect_gradients_of_differences(const torch::nn::Module& model,
                                     const std::function<torch::Tensor()>& loss);

}  // namespace deq::test
