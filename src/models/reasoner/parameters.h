#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <optional>

namespace deq::models {

using OptionalGenerator = std::optional<at::Generator>;

/// Normal numbers of this standard deviation, none beyond two and a quarter times it: a normal
/// distribution cut at two of its own deviations and widened to have the deviation asked for.
torch::Tensor truncated_normal(c10::IntArrayRef shape, double spread,
                               const OptionalGenerator& generator,
                               const torch::TensorOptions& numbers = {});

}  // namespace deq::models
