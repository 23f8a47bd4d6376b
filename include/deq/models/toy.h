#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/pimpl.h>

#include <optional>

#include "deq/core/cell.h"

namespace deq::models {

struct ToyOptions {
  int64_t hidden = 50;  ///< hidden ≥ 1
  double x_min = -2.0;  ///< the inputs the hidden units are spread over at the start
  double x_max = 2.0;
};

/// The paper's one-dimensional layer (§5.1), 4·hidden parameters:
///   f(z; x) = W₂ᵀ ReLU(W₁ z + U x + b),   z, x ∈ ℝ.
class ToyCellImpl : public Cell {
 public:
  explicit ToyCellImpl(const ToyOptions& options = {}, std::optional<at::Generator> generator = {});

  State initial_state(const Inputs& inputs) override;
  Context prepare(const Inputs& inputs) override;
  State step(const State& z, const Context& context) override;
  /// No number of its own changes once it is made.
  std::optional<ReplayKey> replay_key() const override { return ReplayKey{}; }

 private:
  torch::Tensor w1_, w2_, u_, b_;
};
TORCH_MODULE(ToyCell);

}  // namespace deq::models
