#include "deq/core/linearization.h"

#include <torch/autograd.h>

namespace deq {

torch::Tensor Linearization::vjp(const torch::Tensor& u, bool differentiable) const {
  if (products) return products->vjp(u, differentiable);
  if (!f.requires_grad()) return torch::zeros_like(z);
  const auto product = torch::autograd::grad({f}, {z}, {u}, /*retain_graph=*/true, differentiable,
                                             /*allow_unused=*/true)[0];
  return product.defined() ? product : torch::zeros_like(z);
}

}  // namespace deq
