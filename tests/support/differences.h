#pragma once

#include <torch/types.h>

#include <functional>

namespace deq::test {

/// The gradient of the scalar `loss()` with respect to every entry of `tensor`, which is changed in
/// place and restored: five-point central differences, error O(spacing⁴).
torch::Tensor numeric_gradient(const std::function<double()>& loss, torch::Tensor tensor,
                               double spacing = 1e-4);

/// max |entry|.
double largest_entry(const torch::Tensor& tensor);

}  // namespace deq::test
