#include "deq/jacobian/spectrum.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "core/require.h"
#include "jacobian/probes.h"
#include "kernels/history/history.h"
#include "solvers/arnoldi.h"

// Arnoldi from a start vector v gives JᵀV = VH + h·v_{k+1}e_kᵀ with V orthonormal. An eigenpair (λ,
// y) of the small H gives the eigenpair (λ, Vy) of Jᵀ with error h·|y_k|. When that is not small
// enough, Arnoldi starts again from the real part of the dominant Vy, which spans the same
// invariant subspace.

namespace deq {
namespace {

struct Ritz {
  std::vector<double> radius, error;
  torch::Tensor start;  // [B, k] host: the next start vector in the basis
};

/// The dominant eigenpair of every sample's Hessenberg matrix.
Ritz dominant(const torch::Tensor& hessenberg, const std::vector<double>& last_below) {
  const auto [values, vectors] = torch::linalg_eig(hessenberg);
  const auto largest = values.abs().argmax(1);
  const auto batch = hessenberg.size(0), k = hessenberg.size(1);
  Ritz ritz{.radius = {}, .error = {}, .start = torch::empty({batch, k}, torch::kDouble)};
  for (int64_t b = 0; b < batch; ++b) {
    const auto index = largest[b].item<int64_t>();
    const auto y = vectors[b].select(1, index);
    ritz.radius.push_back(values[b][index].abs().item<double>());
    ritz.error.push_back(last_below[static_cast<size_t>(b)] * y[k - 1].abs().item<double>());
    ritz.start[b] = torch::real(y);
  }
  return ritz;
}

}  // namespace

double SpectralRadius::mean() const {
  return std::accumulate(rho.begin(), rho.end(), 0.0) / static_cast<double>(rho.size());
}

SpectralRadius spectral_radius(const Linearization& at, const SpectralRadiusOptions& options,
                               std::optional<at::Generator> generator) {
  require(options.krylov_dim >= 2, "spectral radius: krylov_dim = {}, must be ≥ 2",
          options.krylov_dim);
  require(options.max_products >= 1, "spectral radius: max_products = {}, must be ≥ 1",
          options.max_products);
  const torch::NoGradGuard no_grad;
  const auto batch = static_cast<size_t>(at.batch());
  const auto device = generator ? generator->device() : at.z().device();
  auto start =
      torch::randn(at.z().sizes(), generator, at.z().options().device(device).requires_grad(false))
          .to(at.z().device());
  SpectralRadius result{
      .rho = std::vector<double>(batch, 0.0),
      .error = std::vector<double>(batch, std::numeric_limits<double>::infinity())};
  while (result.products < options.max_products) {
    const auto k = std::min({options.krylov_dim, at.dim(), options.max_products - result.products});
    auto hessenberg = torch::zeros({at.batch(), k, k}, torch::kDouble);
    auto h = hessenberg.accessor<double, 3>();
    std::vector<torch::Tensor> basis{unit_rows(start).contiguous()};
    std::vector<double> below(batch, 0.0);
    for (int64_t j = 0; j < k; ++j) {
      ++result.products;
      const auto column = orthonormalise(basis, at.vjp(basis.back()).contiguous(),
                                         [&] { return torch::empty_like(basis[0]); });
      for (size_t b = 0; b < batch; ++b) {
        const auto sample = static_cast<int64_t>(b);
        for (int64_t i = 0; i <= j; ++i) h[sample][i][j] = column.dots[b][static_cast<size_t>(i)];
        if (j + 1 < k) h[sample][j + 1][j] = column.below[b];
      }
      below = column.below;
      if (j + 1 < k) basis.push_back(column.unit);
    }
    // A Jacobian that is not finite has no spectral radius; its neighbours keep theirs.
    const auto finite = hessenberg.isfinite().flatten(1).all(1);
    hessenberg.masked_fill_(~finite.view({-1, 1, 1}), 0.0);
    const auto ritz = dominant(hessenberg, below);
    bool done = true;
    for (size_t b = 0; b < batch; ++b) {
      if (ritz.error[b] <= result.error[b]) {
        result.rho[b] = ritz.radius[b];
        result.error[b] = ritz.error[b];
      }
      if (!finite.data_ptr<bool>()[b]) {
        result.rho[b] = result.error[b] = std::numeric_limits<double>::quiet_NaN();
        continue;
      }
      done = done && result.error[b] <= options.tolerance * result.rho[b];
    }
    if (done) break;
    start = torch::empty_like(basis[0]);
    kernels::combine(basis, ritz.start, start);
  }
  return result;
}

torch::Tensor dense_jacobian(const Linearization& at) {
  std::vector<torch::Tensor> rows;
  auto selector = torch::zeros(at.z().sizes(), at.z().options().requires_grad(false));
  for (int64_t i = 0; i < at.dim(); ++i) {
    selector.zero_();
    selector.select(1, i).fill_(1);
    rows.push_back(at.vjp(selector.clone()));
  }
  return torch::stack(rows, 1);
}

}  // namespace deq
