#pragma once

#include <torch/types.h>

#include <vector>

#include "deq/core/state_layout.h"

// The linear part of a monotone network, on tiers 0 … n − 1 of square images that wrap around:
//
//   M = I − W = m I + AᵀA − B + Bᵀ,   so that zᵀM z ≥ m‖z‖²
//
// A has 3×3 convolutions Aᵢ on its diagonal and P Dᵢ below it: Dᵢ is a 3×3 convolution of stride 2
// from tier i to tier i + 1, and P appends the row and the column of zeros that the next tier's
// border needs. B has convolutions Bᵢ on its diagonal, and below it what makes M lower triangular:
//
//   (M z)ᵢ = m zᵢ + Aᵢᵀ(Aᵢ zᵢ + 2 P Dᵢ₋₁ zᵢ₋₁) − (Bᵢ − Bᵢᵀ) zᵢ + DᵢᵀDᵢ zᵢ
//
// V = (I + αM)⁻¹ goes down the tiers. All of a tier's block except DᵀD is a circular convolution,
// E = (1 + αm) I + α(AᵀA − B + Bᵀ): a small matrix for every frequency. Woodbury does the rest,
//
//   (E + αDᵀD)⁻¹ r = E⁻¹(r − αDᵀt),   t = (I + αD E⁻¹Dᵀ)⁻¹ D E⁻¹r,   where t = D x for the result x
//
// and D E⁻¹Dᵀ is again a circular convolution, on the coarser grid.

namespace deq::models {

/// One tier's part of M and V. Kernels are [out, in, 3, 3], spectra [frequencies, out, in].
struct MonotoneTier {
  torch::Tensor a;            ///< Aᵢ
  torch::Tensor a_transpose;  ///< Aᵢᵀ
  torch::Tensor skew;         ///< Bᵢ − Bᵢᵀ
  torch::Tensor down;         ///< Dᵢ; undefined on the last tier
  torch::Tensor core;         ///< E⁻¹; undefined until add_inverse()
  torch::Tensor coupling;     ///< (I + αD E⁻¹Dᵀ)⁻¹; likewise, and on the last tier
};

/// The kernel of the transpose of a 3×3 convolution of stride 1.
torch::Tensor transposed_kernel(const torch::Tensor& kernel);

/// A 3×3 convolution of an image that wraps around.
torch::Tensor circular_conv(const torch::Tensor& image, const torch::Tensor& kernel,
                            int64_t stride = 1);

/// M z.
State monotone_product(const std::vector<MonotoneTier>& tiers, double strength, const State& z);

/// Fills in `core` and `coupling`; `sizes` are the tiers' heights.
void add_inverse(std::vector<MonotoneTier>& tiers, double strength, double alpha,
                 const std::vector<int64_t>& sizes);

/// V r.
State monotone_inverse(const std::vector<MonotoneTier>& tiers, double alpha, const State& r);

}  // namespace deq::models
