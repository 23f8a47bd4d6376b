#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <vector>

#include "deq/models/transformer/adaptive_vocabulary.h"

namespace deq::models {

/// Words to vectors, times √d_model. A word goes through the table and projection of its own
/// cluster only. Parameters: emb_layers.N.weight [size, width], emb_projs.N [d_model, width].
class AdaptiveEmbeddingImpl : public torch::nn::Module {
 public:
  explicit AdaptiveEmbeddingImpl(const AdaptiveVocabulary& vocabulary,
                                 const std::optional<at::Generator>& generator = {});

  /// […, d_model] of tokens […], int64.
  torch::Tensor forward(const torch::Tensor& tokens);

  const AdaptiveVocabulary& vocabulary() const { return vocabulary_; }
  /// One per cluster, or one for all words where div_val = 1.
  const std::vector<torch::Tensor>& tables() const { return tables_; }
  /// As many as tables, or none where the tables have the model's width.
  const std::vector<torch::Tensor>& projections() const { return projections_; }

 private:
  torch::Tensor embed(size_t table, const torch::Tensor& words) const;

  AdaptiveVocabulary vocabulary_;
  std::vector<torch::Tensor> tables_;
  std::vector<torch::Tensor> projections_;
};
TORCH_MODULE(AdaptiveEmbedding);

}  // namespace deq::models
