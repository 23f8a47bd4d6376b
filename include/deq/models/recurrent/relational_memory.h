#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/core/replay.h"
#include "deq/models/recurrent/relational_memory_options.h"
#include "deq/models/transformer/adaptive_softmax.h"

namespace deq {
class ReplayedFunction;
}

namespace deq::models {

class RelationalCore;

/// A piece of text, read.
struct RelationalMemoryReading {
  torch::Tensor hidden;  ///< [B, T, d_model]: what words are predicted from
  torch::Tensor memory;  ///< after the last word [B, slots, slot size], without gradient
};

struct RelationalMemoryOutput {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  RelationalMemoryReading reading;
};

/// A language model: adaptive embedding, a relational memory core that reads one word after the
/// other, a linear map of its memory, adaptive softmax. The memory M has `slots` rows. A word x
/// joins them as one more row, all of them attend to each other, and the memory's rows become
///
///   M' = σ(i) ∘ tanh(attended M) + σ(f) ∘ M,    (i, f) = W x + U tanh(M) + b.
///
/// Where the publication is silent about the linear map from 2,500 units to the 512 features of a
/// word, there is one with a bias.
class RelationalMemoryImpl : public torch::nn::Module {
 public:
  explicit RelationalMemoryImpl(const RelationalMemoryOptions& options = {},
                                const std::optional<at::Generator>& generator = {});

  /// The cost of `targets`, the word after each of `tokens`; both [B, T], int64. `memory` is what
  /// the words before have left; undefined at the beginning of a text. Gradients do not go beyond
  /// it.
  RelationalMemoryOutput forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                                 const torch::Tensor& memory = {},
                                 Replay replay = Replay::Automatic);

  /// The same without targets.
  RelationalMemoryReading read(const torch::Tensor& tokens, const torch::Tensor& memory = {},
                               Replay replay = Replay::Automatic);

  /// log p of every word as the next one, […, vocabulary] for hidden […, d_model].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  /// The memory before the first word [batch, slots, slot size]: the identity, cut or padded with
  /// zeros, so that no two slots are the same as long as they have as many features.
  torch::Tensor first_memory(int64_t batch) const;

  const RelationalMemoryOptions& options() const { return options_; }
  /// Names that repeat another parameter, and the other's name.
  std::vector<TiedName> tied() const;

 private:
  RelationalMemoryOptions options_;
  AdaptiveEmbedding embedding_{nullptr};
  std::shared_ptr<RelationalCore> core_;
  torch::nn::Linear output_{nullptr};
  AdaptiveSoftmax softmax_{nullptr};
  std::shared_ptr<ReplayedFunction> replayed_core_;
};
TORCH_MODULE(RelationalMemory);

}  // namespace deq::models
