#pragma once

#include <torch/nn/pimpl.h>

#include <atomic>

#include "deq/core/cell.h"
#include "support/maps.h"

namespace deq::test {

/// f(z; x) = tanh(z Wᵀ + x Uᵀ), the injection in prepare().
class TanhCellImpl : public Cell {
 public:
  TanhCellImpl(const torch::Tensor& w_value, const torch::Tensor& u_value);

  State initial_state(const Inputs& inputs) override;
  Context prepare(const Inputs& inputs) override;
  State step(const State& z, const Context& context) override;
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

  torch::Tensor w, u;
  std::atomic<int64_t> prepared{0}, steps{0};  ///< calls of prepare and of step
};
TORCH_MODULE(TanhCell);

/// A TanhCell whose fixed point for `x` is known, and the dense answers around it.
struct CellProblem {
  TanhCell cell{nullptr};
  torch::Tensor x, z_star;

  torch::Tensor jacobian() const;  ///< [B, D, D] at z*
  /// The gradients of vᵀf(z*; x) at constant z*, by the formulas: w, u, x.
  std::vector<torch::Tensor> pull_back(const torch::Tensor& v) const;
};
CellProblem cell_problem(int64_t batch, int64_t dim, double radius, at::Generator generator);

/// Two state tensors of different shapes that feed each other:
///   a' = tanh(a Wₐ + mean(c) + x),   c' = ½ sin(c ⊙ s) + ¼ mean(a),   a [B, n], c [B, 2, 3].
class PairCellImpl : public Cell {
 public:
  PairCellImpl(int64_t n, at::Generator generator);

  State initial_state(const Inputs& inputs) override;
  State step(const State& z, const Context& context) override;

  torch::Tensor w, s;
};
TORCH_MODULE(PairCell);

}  // namespace deq::test
