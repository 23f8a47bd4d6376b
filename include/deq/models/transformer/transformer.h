#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/models/transformer/cell.h"
#include "deq/models/transformer/options.h"
#include "deq/models/transformer/positional_encoding.h"
#include "deq/nn/equilibrium.h"
#include "deq/nn/variational_dropout.h"

namespace deq {
class ReplayedFunction;
}

namespace deq::models {

class TransformerLinear;

/// What a model remembers of the text before: its last positions, without gradient.
struct TransformerMemory {
  int64_t capacity = 0;  ///< positions kept at most, ≥ 0
  torch::Tensor z{};     ///< their equilibria [B, m, d_model]; undefined at the beginning of a text
  torch::Tensor u{};     ///< their injections [B, m, 3·heads·d_head]

  int64_t length() const { return z.defined() ? z.size(1) : 0; }
};

/// A piece of text, read.
struct TransformerReading {
  torch::Tensor hidden;  ///< [B, T, d_model], z* after dropout: what words are predicted from
  TransformerMemory memory;
  Equilibrated equilibrium;
};

struct TransformerOutput {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  TransformerReading reading;
};

/// A language model: adaptive embedding, equilibrium of one Transformer layer over all positions of
/// a piece of text, adaptive softmax. Parameters and buffers have the names that the authors'
/// checkpoints have; what is tied is one parameter, under the embedding's name.
class DeqTransformerImpl : public torch::nn::Module {
 public:
  explicit DeqTransformerImpl(const TransformerOptions& options = {},
                              const std::optional<at::Generator>& generator = {});

  /// The cost of `targets`, the word after each of `tokens`; both [B, T], int64.
  TransformerOutput forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                            const TransformerMemory& memory, const EquilibriumPlan& plan);

  /// The same without targets. The solve begins at `start` [B, T, d_model] where it is given, e.g.
  /// at the equilibrium of a position before.
  TransformerReading read(const torch::Tensor& tokens, const TransformerMemory& memory,
                          const EquilibriumPlan& plan, const torch::Tensor& start = {});

  /// −log p of every target [B, T] after hidden [B, T, d_model].
  torch::Tensor cost(const torch::Tensor& hidden, const torch::Tensor& targets);

  /// log p of every word as the next one, […, vocabulary] for hidden […, d_model].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  /// The injections of tokens [B, T], and all inputs of the cell with a memory's.
  torch::Tensor inject(const torch::Tensor& tokens, Replay replay = Replay::Automatic);
  Inputs cell_inputs(const torch::Tensor& injection, const TransformerMemory& memory);

  TransformerCell cell() const { return cell_; }
  const TransformerOptions& options() const { return options_; }
  /// Names of the authors' checkpoints that repeat another parameter, and the other's name.
  std::vector<TiedName> tied() const;

 private:
  torch::Tensor injected(const torch::Tensor& tokens);
  torch::Tensor without_dropped_outputs(const torch::Tensor& z) const;

  TransformerOptions options_;
  AdaptiveEmbedding embedding_;
  std::shared_ptr<TransformerLinear> injection_;
  PositionalEncoding positions_;
  TransformerCell cell_;
  Equilibrium layer_;  // not in the module tree, where it would change the cell's name
  AdaptiveSoftmax softmax_;
  VariationalDropout dropout_;
  std::shared_ptr<ReplayedFunction> replayed_injection_;
};
TORCH_MODULE(DeqTransformer);

}  // namespace deq::models
