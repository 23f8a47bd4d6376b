#pragma once

#include "core/require.h"
#include "deq/core/linearization.h"

namespace deq {

inline constexpr const char* kUsedAfterBackward =
    "a linearisation cannot be used after backward(), which frees its graph: measure first, or "
    "call backward() with retain_graph";

inline constexpr const char* kBackwardTwice =
    "backward() through an equilibrium a second time: the first freed what it needs; call it with "
    "retain_graph";

/// How a Linearization makes its products.
class JacobianProducts {
 public:
  explicit JacobianProducts(torch::Tensor z) : z_(std::move(z)) {}
  JacobianProducts(const JacobianProducts&) = delete;
  JacobianProducts& operator=(const JacobianProducts&) = delete;
  virtual ~JacobianProducts() = default;

  const torch::Tensor& z() const { return z_; }

  /// Where f's graph misses some of what f uses: derivatives by these would be 0, or too small.
  void refuse_derivatives(const char* reason) { refusal_ = reason; }
  void require_derivatives() const { require(refusal_ == nullptr, "{}", refusal_); }

  /// As Linearization::vjp.
  virtual torch::Tensor vjp(const torch::Tensor& u, bool differentiable) = 0;

  /// uᵀJ, to be read before the next product is made, which may overwrite it.
  virtual torch::Tensor passing_vjp(const torch::Tensor& u) { return vjp(u, false); }
  /// Where passing_vjp would copy u to, if anywhere.
  virtual torch::Tensor u_buffer() const { return {}; }
  /// f(z), with its graph where the products come from one.
  virtual torch::Tensor f() const = 0;

 private:
  torch::Tensor z_;
  const char* refusal_ = nullptr;
};

/// Throws where `at` is empty.
JacobianProducts& products_of(const Linearization& at);

}  // namespace deq
