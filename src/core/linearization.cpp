#include "deq/core/linearization.h"

#include <torch/autograd.h>

#include <string_view>

#include "deq/core/error.h"

namespace deq {
namespace {

torch::Tensor product_of(const Linearization& at, const torch::Tensor& u, bool differentiable) {
  try {
    return torch::autograd::grad({at.f}, {at.z}, {u}, /*retain_graph=*/true, differentiable,
                                 /*allow_unused=*/true)[0];
  } catch (const c10::Error& error) {
    const bool freed = std::string_view(error.what_without_backtrace()).find("second time") !=
                       std::string_view::npos;
    if (!freed) throw;
    throw Error(
        "a linearisation cannot be used after backward(), which frees its graph: measure first, or "
        "call backward() with retain_graph");
  }
}

}  // namespace

torch::Tensor Linearization::vjp(const torch::Tensor& u, bool differentiable) const {
  if (products) return products->vjp(u, differentiable);
  if (!f.requires_grad()) return torch::zeros_like(z);
  const auto product = product_of(*this, u, differentiable);
  return product.defined() ? product : torch::zeros_like(z);
}

}  // namespace deq
