#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/models/recurrent/qrnn_options.h"
#include "deq/models/transformer/adaptive_softmax.h"
#include "deq/nn/variational_dropout.h"

namespace deq::models {

class QrnnLayer;

/// What a model remembers of the text before, without gradient. Empty at the beginning.
struct QrnnMemory {
  std::vector<torch::Tensor> states{};  ///< of every layer, [B, its features]
  torch::Tensor inputs{};  ///< the first layer's last window − 1, [B, window − 1, d_embed], if any

  bool empty() const { return states.empty(); }

  /// The states, and behind them the inputs.
  std::vector<torch::Tensor> tensors() const;
  /// The way back, for a model of so many layers.
  static QrnnMemory of(const std::vector<torch::Tensor>& tensors, int64_t layers);
};

/// A piece of text, read.
struct QrnnReading {
  torch::Tensor hidden;  ///< [B, T, d_embed], after dropout: what words are predicted from
  QrnnMemory memory;
};

struct QrnnOutput {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  /// α mean(h²) + β mean((hₜ − hₜ₋₁)²) of the last layer's output, of which the first term sees
  /// what dropout leaves; undefined in eval mode and where α = β = 0.
  torch::Tensor penalty;
  QrnnReading reading;
};

/// Layers that read words by a product of matrices and remember them by a gate alone, so that all
/// positions are multiplied at once. In training mode the positions of a stream share what is
/// dropped of their features, all streams what is dropped of weights and words. Parameters:
/// word_emb.*, layers.N.{weight, bias}, crit.*; what is tied is one parameter, under the
/// embedding's name.
class AwdQrnnImpl : public torch::nn::Module {
 public:
  explicit AwdQrnnImpl(const QrnnOptions& options = {},
                       const std::optional<at::Generator>& generator = {});

  /// The cost of `targets`, the word after each of `tokens`; both [B, T], int64.
  QrnnOutput forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                     const QrnnMemory& memory);

  /// The same without targets.
  QrnnReading read(const torch::Tensor& tokens, const QrnnMemory& memory);

  /// log p of every word as the next one, […, vocabulary] for hidden […, d_embed].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  const QrnnOptions& options() const { return options_; }
  /// Names of parameters that are another one's, and the other's.
  std::vector<TiedName> tied() const;

 private:
  void check(const torch::Tensor& tokens, const QrnnMemory& memory) const;
  torch::Tensor embedded(const torch::Tensor& tokens);
  /// The last layer's output, before dropout.
  QrnnReading through_layers(const torch::Tensor& tokens, const QrnnMemory& memory);
  torch::Tensor penalty(const torch::Tensor& dropped, const torch::Tensor& output) const;

  QrnnOptions options_;
  AdaptiveEmbedding embedding_{nullptr};
  std::vector<std::shared_ptr<QrnnLayer>> layers_;
  AdaptiveSoftmax softmax_{nullptr};
  VariationalDropout embedding_dropout_{nullptr}, input_dropout_{nullptr}, hidden_dropout_{nullptr},
      output_dropout_{nullptr};
};
TORCH_MODULE(AwdQrnn);

}  // namespace deq::models
