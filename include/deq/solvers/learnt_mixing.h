#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "deq/solvers/mixing_rule.h"

namespace deq {

struct LearntMixingOptions {
  int64_t memory = 6;   ///< that of the solver, ≥ 1
  int64_t hidden = 32;  ///< width of the hidden layer, ≥ 1
};

/// Throws Error naming field, value and constraint.
void validate(const LearntMixingOptions& options);

/// Anderson's weights with a learnt correction (after Bai, Koltun and Kolter 2022): a small network
/// that sees angles and relative lengths of the residuals, not the states, so one serves states of
/// every size. A new one changes nothing, to the bit; mixing_loss trains it, with f frozen.
class LearntMixingImpl final : public torch::nn::Module, public MixingRule {
 public:
  explicit LearntMixingImpl(const LearntMixingOptions& options = {},
                            const std::optional<at::Generator>& generator = {});

  int64_t memory() const override { return options_.memory; }
  /// Differentiable in its parameters and in the history.
  MixingWeights weights(const MixingHistory& history) override;

  const LearntMixingOptions& options() const { return options_; }

 private:
  LearntMixingOptions options_;
  torch::nn::Linear hidden_, correction_;
};
TORCH_MODULE(LearntMixing);

}  // namespace deq
