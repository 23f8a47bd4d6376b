#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <vector>

#include "deq/core/linearization.h"
#include "deq/solvers/solver.h"

// Maps z → f(z) on slabs [B, D] whose fixed points and Jacobians are known without this library.

namespace deq::test {

inline torch::TensorOptions f64() {
  return torch::dtype(torch::kFloat64);
}

/// [D, D] Gaussian entries, scaled to the given spectral radius.
torch::Tensor matrix_with_radius(int64_t dim, double radius, at::Generator generator);

/// A non-symmetric matrix with these real eigenvalues.
torch::Tensor matrix_with_eigenvalues(const std::vector<double>& eigenvalues,
                                      at::Generator generator);

/// radius · [[cos, −sin], [sin, cos]]: the complex pair radius·e^(±i·angle).
torch::Tensor rotation(double angle, double radius = 1.0);

/// A random orthogonal matrix.
torch::Tensor orthogonal(int64_t dim, at::Generator generator);

/// max |λ| of every matrix in [B, D, D] by a dense eigensolver.
torch::Tensor dense_radius(const torch::Tensor& matrices);

/// f(z) = z Aᵀ + b for every sample, A [D, D] or one for each sample [B, D, D].
struct AffineMap {
  torch::Tensor a, b;
  torch::Tensor operator()(const torch::Tensor& z) const;
  torch::Tensor fixed_point() const;
};

/// f(z) = tanh(z Wᵀ + x): the map of the solver fixtures.
struct TanhMap {
  torch::Tensor w, x;
  torch::Tensor operator()(const torch::Tensor& z) const;
  torch::Tensor jacobian(const torch::Tensor& z) const;  ///< [B, D, D]
};

/// A tanh map that was built around its fixed point: the largest spectral radius of J(z*) over the
/// batch is the one asked for.
struct TanhProblem {
  TanhMap map;
  torch::Tensor z_star;
};
TanhProblem tanh_problem(int64_t batch, int64_t dim, double radius, at::Generator generator);

/// u (I − J) = g for every sample by a dense solve; jacobian [B, D, D], g [B, D].
torch::Tensor dense_adjoint(const torch::Tensor& jacobian, const torch::Tensor& g);

/// The linearisation of z ↦ f(z) at z; parameters of f stay attached.
Linearization linearize(const Map& f, const torch::Tensor& z);

/// max |a − b| / max |b|, and 0 where they are equal.
double relative_difference(const torch::Tensor& a, const torch::Tensor& b);

/// Counts the calls of f.
struct CountingMap {
  Map f;
  std::shared_ptr<int64_t> calls = std::make_shared<int64_t>(0);
  torch::Tensor operator()(const torch::Tensor& z) const {
    ++*calls;
    return f(z);
  }
};

/// ‖f(z) − z‖ and ‖f(z) − z‖ / ‖f(z)‖ per sample, [B] in float64.
struct Residuals {
  torch::Tensor absolute, relative;
};
Residuals residuals(const Map& f, const torch::Tensor& z);

}  // namespace deq::test
