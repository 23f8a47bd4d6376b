#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "deq/models/reasoner/cell.h"
#include "deq/models/reasoner/options.h"
#include "deq/nn/equilibrium.h"

namespace deq::models {

struct ReasonerOutput {
  torch::Tensor logits;      ///< of what stands in each cell [B, tokens, vocabulary]
  torch::Tensor settled;     ///< logit of "all of it is right" [B], from the answer's first token
  Equilibrated equilibrium;  ///< its state is the answer and the thought
};

/// A puzzle to its answer: embedding, the equilibrium of a ReasonerCell (or so many recursions as
/// the plan takes), a linear layer. Weights start as truncated normal numbers of variance 1/inputs.
class ReasonerImpl : public torch::nn::Module {
 public:
  explicit ReasonerImpl(const ReasonerOptions& options = {},
                        const std::optional<at::Generator>& generator = {});

  /// `tokens` [B, tokens], int64. Goes on from `start`, the state of a pass before or start_of().
  ReasonerOutput forward(const torch::Tensor& tokens, const State& start,
                         const EquilibriumPlan& plan, const Callback& callback = {});

  /// Of puzzles that are new. What is random about it is drawn from `generator`, or else from
  /// torch's own on the tokens' device.
  State start_of(const torch::Tensor& tokens, const std::optional<at::Generator>& generator = {});

  /// The parts of forward().
  torch::Tensor embed(const torch::Tensor& tokens);       ///< the cell's input
  torch::Tensor read(const torch::Tensor& answer) const;  ///< logits of a state's first tensor

  ReasonerCell cell() const { return cell_; }
  const ReasonerOptions& options() const { return options_; }

 private:
  ReasonerOptions options_;
  torch::Tensor embedding_;
  ReasonerCell cell_;
  Equilibrium layer_;  // not in the module tree, where it would change the cell's name
  torch::Tensor head_;
  torch::nn::Linear settled_;
  torch::Tensor first_answer_, first_thought_;  // of ReasonerStart::Fixed
};
TORCH_MODULE(Reasoner);

}  // namespace deq::models
