#pragma once

#include <torch/types.h>

#include <memory>

namespace deq {

/// Products with J that do not come from f's graph, e.g. because they are replayed.
class JacobianProducts {
 public:
  JacobianProducts() = default;
  JacobianProducts(const JacobianProducts&) = delete;
  JacobianProducts& operator=(const JacobianProducts&) = delete;
  virtual ~JacobianProducts() = default;

  /// As Linearization::vjp.
  virtual torch::Tensor vjp(const torch::Tensor& u, bool differentiable) = 0;

  /// uᵀJ, to be read before the next product is made, which may overwrite it.
  virtual torch::Tensor passing_vjp(const torch::Tensor& u) { return vjp(u, false); }
  /// Where passing_vjp would copy u to, if anywhere.
  virtual torch::Tensor place_of_u() const { return {}; }
};

/// f and its Jacobian J = ∂f/∂z at one point, as a graph: products with J, no J itself.
/// Samples are taken to be independent: J is block-diagonal over the batch, one [D, D] block each.
struct Linearization {
  torch::Tensor z;  ///< [B, D], a leaf that requires grad, detached from whatever produced it
  torch::Tensor f;  ///< [B, D], f(z) with its graph down to z, the parameters and the inputs;
                    ///< undefined where there are `products`
  std::shared_ptr<JacobianProducts> products{};

  int64_t batch() const { return z.size(0); }
  int64_t dim() const { return z.size(1); }

  /// uᵀJ for every sample, u [B, D]. With `differentiable` the result has a graph of its own.
  torch::Tensor vjp(const torch::Tensor& u, bool differentiable = false) const;

  /// As JacobianProducts.
  torch::Tensor passing_vjp(const torch::Tensor& u) const {
    return products ? products->passing_vjp(u) : vjp(u);
  }
  torch::Tensor place_of_u() const { return products ? products->place_of_u() : torch::Tensor(); }
};

}  // namespace deq
