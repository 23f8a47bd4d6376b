#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/models/transformer/looped_cell.h"
#include "deq/models/transformer/looped_options.h"
#include "deq/models/transformer/positional_encoding.h"
#include "deq/models/transformer/transformer_xl.h"
#include "deq/nn/equilibrium.h"

namespace deq::models {

/// A piece of text, read.
struct LoopedReading {
  torch::Tensor hidden;  ///< [B, T, d_model], after dropout: what words are predicted from
  /// The inputs of all layers: of the prelude's, of the core's in a loop from where it ended, of
  /// the coda's.
  TransformerXlMemory memory;
  Equilibrated equilibrium;
};

struct LoopedOutput {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  LoopedReading reading;
};

/// When a position leaves the loop: after the loop in which its own state has changed by
/// ‖f(s) − s‖ ≤ rtol·‖f(s)‖.
struct LoopExits {
  int64_t loops = 32;  ///< at most, ≥ 1
  double rtol = 0.01;  ///< ≥ 0
};

/// A piece of text whose positions have left the loop by themselves.
struct LoopedExitReading {
  torch::Tensor hidden;  ///< as in LoopedReading
  TransformerXlMemory memory;
  torch::Tensor loops;  ///< that each position took [B, T], int64
};

/// A language model of recurrent depth: adaptive embedding, explicit layers (the prelude), the
/// equilibrium of a LoopedCell or so many loops as the plan takes, explicit layers (the coda),
/// adaptive softmax. Explicit layers are those of Transformer-XL.
class LoopedTransformerImpl : public torch::nn::Module {
 public:
  explicit LoopedTransformerImpl(const LoopedTransformerOptions& options = {},
                                 const std::optional<at::Generator>& generator = {});

  /// The cost of `targets`, the word after each of `tokens`; both [B, T], int64.
  LoopedOutput forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                       const TransformerXlMemory& memory, const EquilibriumPlan& plan);

  /// The same without targets. The loop begins at `start` [B, T, d_model] where it is given, e.g.
  /// where that of a position before has ended.
  LoopedReading read(const torch::Tensor& tokens, const TransformerXlMemory& memory,
                     const EquilibriumPlan& plan, const torch::Tensor& start = {});

  /// The same by plain loops, in which a position that has left stays as it is, for the others too.
  LoopedExitReading read_with_exits(const torch::Tensor& tokens, const TransformerXlMemory& memory,
                                    const LoopExits& exits);

  /// −log p of every target [B, T] after hidden [B, T, d_model].
  torch::Tensor cost(const torch::Tensor& hidden, const torch::Tensor& targets);

  /// log p of every word as the next one, […, vocabulary] for hidden […, d_model].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  /// All inputs of the cell, the prelude's result first.
  Inputs cell_inputs(const torch::Tensor& tokens, const TransformerXlMemory& memory);

  LoopedCell cell() const { return cell_; }
  const LoopedTransformerOptions& options() const { return options_; }
  /// Names of checkpoints that repeat another parameter, and the other's name.
  std::vector<TiedName> tied() const;

 private:
  struct Passage;
  void check(const torch::Tensor& tokens, const TransformerXlMemory& memory) const;
  torch::Tensor dropped(const torch::Tensor& x) const;
  /// Up to the loop, and from its last state on.
  Passage begin(const torch::Tensor& tokens, const TransformerXlMemory& memory);
  torch::Tensor finish(Passage& passage, const torch::Tensor& s);

  LoopedTransformerOptions options_;
  AdaptiveEmbedding embedding_{nullptr};
  std::vector<std::shared_ptr<TransformerXlLayer>> prelude_;
  LoopedCell cell_{nullptr};
  Equilibrium layer_{nullptr};  // not in the module tree, where it would change the cell's name
  std::vector<std::shared_ptr<TransformerXlLayer>> coda_;
  AdaptiveSoftmax softmax_{nullptr};
  PositionalEncoding positions_{nullptr};
  torch::Tensor content_bias_, position_bias_;  // of all explicit layers
};
TORCH_MODULE(LoopedTransformer);

}  // namespace deq::models
