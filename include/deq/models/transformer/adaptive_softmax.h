#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deq/models/transformer/adaptive_embedding.h"

namespace deq::kernels {
struct WordScores;
}

namespace deq::models {

/// What a softmax shares with the embedding.
struct AdaptiveTies {
  bool weights = true;              ///< the tables
  std::vector<bool> projections{};  ///< whether, for each cluster; empty: of none
};

/// The name a parameter would have if it were not shared, and its own.
using TiedName = std::pair<std::string, std::string>;

/// Vectors to log-probabilities of words. What a target costs is computed in its own cluster only.
/// Parameters: out_layers.N.{weight, bias}, out_projs.N, cluster_weight and cluster_bias; those
/// tied to the embedding are one parameter with it, registered only there.
class AdaptiveSoftmaxImpl : public torch::nn::Module {
 public:
  AdaptiveSoftmaxImpl(const AdaptiveEmbedding& embedding, const AdaptiveTies& ties,
                      const std::optional<at::Generator>& generator = {});

  /// −log p(target) […] for vectors […, d_model] and targets […], in the targets' order.
  torch::Tensor forward(const torch::Tensor& hidden, const torch::Tensor& targets);

  /// log p of every word, […, words].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  /// E.g. {"out_layers.0.weight", "emb_layers.0.weight"}.
  const std::vector<TiedName>& tied() const { return tied_; }

 private:
  /// The cluster's words; with the first one's, the other clusters.
  std::vector<kernels::WordScores> tables(int64_t cluster) const;
  torch::Tensor projected(int64_t cluster, const torch::Tensor& hidden) const;
  /// Where the first cluster's log-softmax has another cluster.
  int64_t column(int64_t cluster) const;

  AdaptiveVocabulary vocabulary_;
  std::vector<torch::Tensor> tables_;
  std::vector<torch::Tensor> biases_;
  std::vector<torch::Tensor> projections_;  // one per cluster, or none
  torch::Tensor cluster_weight_, cluster_bias_;
  std::vector<TiedName> tied_;
};
TORCH_MODULE(AdaptiveSoftmax);

}  // namespace deq::models
