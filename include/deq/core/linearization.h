#pragma once

#include <torch/types.h>

#include <memory>
#include <utility>

namespace deq {

class JacobianProducts;

/// f's Jacobian J = ∂f/∂z at one point z, as products with J, no J itself.
/// Samples are taken to be independent: J is block-diagonal over the batch, one [D, D] block each.
class Linearization {
 public:
  Linearization() = default;

  /// From f(z) [B, D] with its graph down to z, a leaf that requires grad and is detached from
  /// whatever produced it. Products that can be differentiated reach all that f's graph reaches.
  Linearization(const torch::Tensor& z, const torch::Tensor& f);

  /// For products that are made in another way.
  explicit Linearization(std::shared_ptr<JacobianProducts> products)
      : products_(std::move(products)) {}

  const torch::Tensor& z() const;  ///< [B, D]
  int64_t batch() const { return z().size(0); }
  int64_t dim() const { return z().size(1); }

  /// uᵀJ for every sample, u [B, D]. With `differentiable` the result has a graph of its own.
  torch::Tensor vjp(const torch::Tensor& u, bool differentiable = false) const;

 private:
  friend JacobianProducts& products_of(const Linearization& at);
  std::shared_ptr<JacobianProducts> products_;
};

}  // namespace deq
