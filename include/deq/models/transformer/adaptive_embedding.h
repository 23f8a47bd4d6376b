#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "deq/models/transformer/adaptive_vocabulary.h"

namespace deq::models {

/// Words to vectors, times √d_model where the vocabulary says so. A word goes through the table and
/// projection of its own cluster only. Parameters: emb_layers.N.weight [size, width], emb_projs.N
/// [d_model, width].
class AdaptiveEmbeddingImpl : public torch::nn::Module {
 public:
  explicit AdaptiveEmbeddingImpl(const AdaptiveVocabulary& vocabulary,
                                 const std::optional<at::Generator>& generator = {});

  /// […, d_model] of tokens […], int64.
  torch::Tensor forward(const torch::Tensor& tokens);

  /// The same of tokens that are words, which nobody checks: no read from a GPU.
  torch::Tensor embed(const torch::Tensor& tokens) const;

  const AdaptiveVocabulary& vocabulary() const { return vocabulary_; }
  /// One per cluster, or one for all words where div_val = 1.
  const std::vector<torch::Tensor>& tables() const { return tables_; }
  /// As many as tables, or none where the tables have the model's width.
  const std::vector<torch::Tensor>& projections() const { return projections_; }

 private:
  AdaptiveVocabulary vocabulary_;
  std::vector<torch::Tensor> tables_;
  std::vector<torch::Tensor> projections_;
};
TORCH_MODULE(AdaptiveEmbedding);

}  // namespace deq::models
