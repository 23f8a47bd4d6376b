#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/models/transformer/adaptive_softmax.h"
#include "deq/models/transformer/positional_encoding.h"

namespace deq::models {

class TransformerXlLayer;

/// Transformer-XL (Dai et al. 2019): the explicit network a DEQ-Transformer is compared with. The
/// defaults are the authors' base model for WikiText-103.
struct TransformerXlOptions {
  int64_t vocabulary = 267'735;                        ///< words, ≥ 1
  std::vector<int64_t> cutoffs{20000, 40000, 200000};  ///< 0 < … < vocabulary; empty: one cluster
  int64_t div_val = 1;                                 ///< ≥ 1; see AdaptiveVocabulary
  int64_t layers = 16;                                 ///< ≥ 1
  int64_t d_model = 410;                               ///< even, ≥ 2
  int64_t d_embed = 410;                               ///< width of the first cluster, ≥ 1
  int64_t heads = 10;                                  ///< ≥ 1
  int64_t d_head = 41;                                 ///< ≥ 1
  int64_t d_inner = 2100;                              ///< of the feed-forward parts, ≥ 1
  int64_t horizon = 0;         ///< positions that one sees, itself among them; 0: all
  int64_t clamp_distance = 0;  ///< farther positions count as this far; 0: all as far as they are
  bool pre_ln = false;         ///< layer norms before the two parts, not after
  bool tie_weights = true;     ///< one table to embed and to predict words
  std::vector<bool> tie_projections{false, true, true, true};  ///< which clusters; empty: none
  double dropout = 0.1;                                        ///< in [0, 1)
  double attention_dropout = 0.0;  ///< of attention probabilities, in [0, 1)
  double init_std = 0.02;          ///< of the weights at the start, ≥ 0
};

/// Throws Error naming the field, its value and the constraint.
void validate(const TransformerXlOptions& options);

/// What a model remembers of the text before: the inputs of all layers and the last one's output at
/// the last positions, without gradient.
struct TransformerXlMemory {
  int64_t capacity = 0;                 ///< positions kept at most, ≥ 0
  std::vector<torch::Tensor> layers{};  ///< layers + 1 of [B, m, d_model]; empty at the beginning

  int64_t length() const { return layers.empty() ? 0 : layers.front().size(1); }
};

/// A piece of text, read.
struct TransformerXlReading {
  torch::Tensor hidden;  ///< [B, T, d_model], after dropout: what words are predicted from
  TransformerXlMemory memory;
};

struct TransformerXlOutput {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  TransformerXlReading reading;
};

/// Parameters and buffers have the names that the authors' checkpoints have; what is tied is one
/// parameter, under the embedding's name.
class TransformerXLImpl : public torch::nn::Module {
 public:
  explicit TransformerXLImpl(const TransformerXlOptions& options = {},
                             const std::optional<at::Generator>& generator = {});

  /// The cost of `targets`, the word after each of `tokens`; both [B, T], int64.
  TransformerXlOutput forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                              const TransformerXlMemory& memory);

  /// The same without targets.
  TransformerXlReading read(const torch::Tensor& tokens, const TransformerXlMemory& memory);

  /// log p of every word as the next one, […, vocabulary] for hidden […, d_model].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  const TransformerXlOptions& options() const { return options_; }
  /// Names of the authors' checkpoints that repeat another parameter, and the other's name.
  std::vector<TiedName> tied() const;

 private:
  void check(const torch::Tensor& tokens, const TransformerXlMemory& memory) const;

  TransformerXlOptions options_;
  AdaptiveEmbedding embedding_{nullptr};
  std::vector<std::shared_ptr<TransformerXlLayer>> layers_;
  AdaptiveSoftmax softmax_{nullptr};
  PositionalEncoding positions_{nullptr};
  torch::Tensor content_bias_, position_bias_;  // of all layers
};
TORCH_MODULE(TransformerXL);

}  // namespace deq::models
