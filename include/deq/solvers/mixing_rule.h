#pragma once

#include <torch/types.h>

#include <cstdint>

namespace deq {

/// What Anderson knows before a step, of a batch of samples: their last residuals gᵢ = f(zᵢ) − zᵢ,
/// the newest first. Numbers are float64; in a solve they lie on the host.
struct MixingHistory {
  torch::Tensor gram{};    ///< [B, m, m] gᵢ·gⱼ, 0 beyond a sample's history
  torch::Tensor length{};  ///< [B] residuals in a sample's history, 1 ≤ length ≤ m
  torch::Tensor alpha{};   ///< [B, m] the least-squares weights, 0 beyond the history
  double beta = 1.0;       ///< Anderson::beta
  int64_t step = 1;        ///< 1 for the solve's first
};

/// One step, z ← Σ αᵢ (zᵢ + β gᵢ).
struct MixingWeights {
  torch::Tensor alpha{};  ///< [B, m] sums are 1; 0 beyond the history
  torch::Tensor beta{};   ///< [B]
};

/// Chooses the weights of Anderson's steps: Anderson::mixing. It may be asked from several threads
/// at once.
class MixingRule {
 public:
  virtual ~MixingRule() = default;
  /// The m for which it was made.
  virtual int64_t memory() const = 0;
  virtual MixingWeights weights(const MixingHistory& history) = 0;
};

}  // namespace deq
