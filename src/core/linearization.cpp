#include "deq/core/linearization.h"

#include <torch/autograd.h>

#include <string_view>

#include "core/jacobian_products.h"
#include "core/require.h"
#include "deq/core/interruption.h"

namespace deq {
namespace {

class GraphProducts final : public JacobianProducts {
 public:
  GraphProducts(const torch::Tensor& z, torch::Tensor f) : JacobianProducts(z), f_(std::move(f)) {}

  torch::Tensor vjp(const torch::Tensor& u, bool differentiable) override {
    if (!f_.requires_grad()) return torch::zeros_like(z());
    const auto product = product_with(u, differentiable);
    return product.defined() ? product : torch::zeros_like(z());
  }

  torch::Tensor f() const override { return f_; }

 private:
  torch::Tensor product_with(const torch::Tensor& u, bool differentiable) const {
    try {
      return torch::autograd::grad({f_}, {z()}, {u}, /*retain_graph=*/true, differentiable,
                                   /*allow_unused=*/true)[0];
    } catch (const c10::Error& error) {
      const bool freed = std::string_view(error.what_without_backtrace()).find("second time") !=
                         std::string_view::npos;
      if (!freed) throw;
      throw Error(kUsedAfterBackward);
    }
  }

  torch::Tensor f_;
};

}  // namespace

Linearization::Linearization(const torch::Tensor& z, const torch::Tensor& f)
    : products_(std::make_shared<GraphProducts>(z, f)) {}

const torch::Tensor& Linearization::z() const {
  return products_of(*this).z();
}

torch::Tensor Linearization::vjp(const torch::Tensor& u, bool differentiable) const {
  check_interruption();
  auto& products = products_of(*this);
  if (differentiable) products.require_derivatives();
  return products.vjp(u, differentiable);
}

JacobianProducts& products_of(const Linearization& at) {
  require(at.products_ != nullptr, "this linearisation is empty");
  return *at.products_;
}

}  // namespace deq
