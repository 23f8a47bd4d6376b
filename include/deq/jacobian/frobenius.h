#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <optional>

#include "deq/core/linearization.h"

namespace deq {

enum class ProbeDistribution { Gaussian, Rademacher };

/// Hutchinson's estimator: for a random ε with E[εεᵀ] = I,  E‖εᵀJ‖² = tr(JJᵀ) = ‖J‖²_F.
struct Hutchinson {
  int64_t probes = 1;  ///< M ≥ 1; the relative error falls as M^(−1/2)
  ProbeDistribution distribution = ProbeDistribution::Gaussian;
};

void validate(const Hutchinson& options);

/// Where the probes of an estimate come from. The probe of a sample depends only on the key and on
/// the sample's number, so that a batch split over processes gets the probes of the whole batch.
struct ProbeKey {
  uint64_t key = 0;
  int64_t first_sample = 0;  ///< ≥ 0; the number of this batch's first sample in the whole batch
};

/// An unbiased estimate of ‖J‖²_F for every sample, [B]. With `differentiable` it has a graph to
/// everything J depends on except z.
torch::Tensor frobenius_squared(const Linearization& at, const Hutchinson& options,
                                const ProbeKey& key, bool differentiable = false);

/// The same with a key drawn from `generator`, or from torch's own.
torch::Tensor frobenius_squared(const Linearization& at, const Hutchinson& options = {},
                                std::optional<at::Generator> generator = {},
                                bool differentiable = false);

/// The paper's penalty, differentiable: the batch mean of ‖J‖²_F / D, estimated.
torch::Tensor jacobian_penalty(const Linearization& at, const Hutchinson& options,
                               const ProbeKey& key);
torch::Tensor jacobian_penalty(const Linearization& at, const Hutchinson& options = {},
                               std::optional<at::Generator> generator = {});

/// The penalty of Linsley et al. (2020), ‖(1ᵀJ − λ)⁺‖₂ averaged over the batch. It does not bound
/// the spectral radius (J = [[2, −2], [−2, 2]] has penalty 0 and an eigenvalue 4). It is here for
/// comparison.
torch::Tensor linsley_penalty(const Linearization& at, double lambda);

}  // namespace deq
