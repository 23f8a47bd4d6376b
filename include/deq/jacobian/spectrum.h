#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "deq/core/linearization.h"

namespace deq {

struct SpectralRadiusOptions {
  int64_t krylov_dim = 24;     ///< Arnoldi vectors before a restart, ≥ 2
  int64_t max_products = 200;  ///< products with J in all, ≥ 1
  double tolerance = 1e-4;     ///< stop at ‖Jv − λv‖ ≤ tolerance·|λ| for unit v
};

struct SpectralRadius {
  std::vector<double> rho;    ///< max |λ(J)| per sample
  std::vector<double> error;  ///< ‖Jv − λv‖ of the eigenpair behind it
  int64_t products = 0;

  double mean() const;
};

/// The spectral radius of every sample's J by restarted Arnoldi on vector–Jacobian products. Unlike
/// the power method it is right where the dominant eigenvalues are a complex pair.
SpectralRadius spectral_radius(const Linearization& at, const SpectralRadiusOptions& options = {},
                               std::optional<at::Generator> generator = {});

/// J itself, [B, D, D], at the cost of D products: for small problems and tests.
torch::Tensor dense_jacobian(const Linearization& at);

}  // namespace deq
