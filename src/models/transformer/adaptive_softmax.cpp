#include "deq/models/transformer/adaptive_softmax.h"

#include <ATen/ops/matmul.h>

#include "core/require.h"
#include "kernels/words/cross_entropy.h"
#include "models/module_tree.h"
#include "models/transformer/parameters.h"

namespace deq::models {

AdaptiveSoftmaxImpl::AdaptiveSoftmaxImpl(const AdaptiveEmbedding& embedding,
                                         const AdaptiveTies& ties,
                                         const std::optional<at::Generator>& generator)
    : vocabulary_(embedding->vocabulary()) {
  const auto clusters = vocabulary_.clusters();
  require(ties.projections.empty() || static_cast<int64_t>(ties.projections.size()) == clusters,
          "vocabulary: tie_projections has {} entries, must have none or one for each of the {} "
          "clusters",
          ties.projections.size(), clusters);
  if (clusters > 1) {
    cluster_weight_ = register_parameter(
        "cluster_weight",
        normal_numbers({clusters - 1, vocabulary_.d_embed}, vocabulary_.init_std, generator));
    cluster_bias_ = register_parameter("cluster_bias", torch::zeros({clusters - 1}));
  }
  const auto layers = static_cast<int64_t>(embedding->tables().size());
  for (int64_t i = 0; i < layers; ++i) {
    const auto& tied = embedding->tables()[static_cast<size_t>(i)];
    const auto name = fmt::format("out_layers.{}.weight", i);
    if (ties.weights) {
      tables_.push_back(tied);
      tied_.emplace_back(name, fmt::format("emb_layers.{}.weight", i));
    } else {
      tables_.push_back(register_parameter_at(
          *this, name, normal_numbers(tied.sizes(), vocabulary_.init_std, generator)));
    }
    biases_.push_back(register_parameter_at(*this, fmt::format("out_layers.{}.bias", i),
                                            torch::zeros({tied.size(0)})));
  }
  if (!vocabulary_.projected()) return;
  for (int64_t i = 0; i < clusters; ++i) {
    // With one table there is one projection, which serves all clusters.
    const auto source = vocabulary_.one_table() ? 0 : i;
    const auto& tied = embedding->projections()[static_cast<size_t>(source)];
    const auto name = projection_name("out_projs", i, vocabulary_);
    if (!ties.projections.empty() && ties.projections[static_cast<size_t>(i)]) {
      projections_.push_back(tied);
      tied_.emplace_back(name, projection_name("emb_projs", source, vocabulary_));
    } else {
      projections_.push_back(register_parameter_at(
          *this, name, normal_numbers(tied.sizes(), vocabulary_.projection_init_std, generator)));
    }
  }
}

std::vector<kernels::WordScores> AdaptiveSoftmaxImpl::tables(int64_t cluster) const {
  std::vector<kernels::WordScores> tables;
  if (vocabulary_.one_table()) {
    const auto first = vocabulary_.first_word(cluster), words = vocabulary_.size(cluster);
    tables.push_back(
        {.weight = tables_[0].narrow(0, first, words), .bias = biases_[0].narrow(0, first, words)});
  } else {
    const auto own = static_cast<size_t>(cluster);
    tables.push_back({.weight = tables_[own], .bias = biases_[own]});
  }
  if (cluster == 0 && cluster_weight_.defined()) {
    tables.push_back({.weight = cluster_weight_, .bias = cluster_bias_});
  }
  return tables;
}

int64_t AdaptiveSoftmaxImpl::column(int64_t cluster) const {
  // The published weights have the clusters after the words, the last one first.
  return vocabulary_.size(0) + vocabulary_.clusters() - 1 - cluster;
}

torch::Tensor AdaptiveSoftmaxImpl::projected(int64_t cluster, const torch::Tensor& hidden) const {
  return projections_.empty() ? hidden
                              : at::matmul(hidden, projections_[static_cast<size_t>(cluster)]);
}

torch::Tensor AdaptiveSoftmaxImpl::forward(const torch::Tensor& hidden,
                                           const torch::Tensor& targets) {
  require(hidden.dim() == targets.dim() + 1 && hidden.size(-1) == vocabulary_.d_model &&
              hidden.sizes().slice(0, static_cast<size_t>(targets.dim())) == targets.sizes(),
          "vocabulary: vectors of shape {} for targets of shape {}, must have the same shape and "
          "then d_model = {}",
          hidden.sizes(), targets.sizes(), vocabulary_.d_model);
  const auto vectors = hidden.reshape({-1, vocabulary_.d_model});
  const auto flat = targets.reshape(-1);
  std::vector<int64_t> bounds;
  for (int64_t i = 0; i <= vocabulary_.clusters(); ++i) bounds.push_back(vocabulary_.first_word(i));
  const auto parts = part_by_cluster(flat, bounds);

  auto columns = flat.clone();
  for (size_t i = 1; i < parts.size(); ++i) {
    columns.index_fill_(0, parts[i].positions, column(static_cast<int64_t>(i)));
  }
  auto nll = kernels::cross_entropy(projected(0, vectors), tables(0), columns);
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto& [positions, words] = parts[i];
    if (parts[i].empty()) continue;
    const auto cluster = static_cast<int64_t>(i);
    const auto within = kernels::cross_entropy(
        projected(cluster, vectors.index_select(0, positions)), tables(cluster), words);
    nll = nll.index_add(0, positions, within);
  }
  return nll.view(targets.sizes());
}

torch::Tensor AdaptiveSoftmaxImpl::log_probabilities(const torch::Tensor& hidden) {
  require(hidden.dim() >= 1 && hidden.size(-1) == vocabulary_.d_model,
          "vocabulary: vectors of shape {}, must end in d_model = {}", hidden.sizes(),
          vocabulary_.d_model);
  const auto log_p_within = [&](int64_t cluster) {
    return kernels::log_probabilities(projected(cluster, hidden), tables(cluster));
  };
  const auto first = log_p_within(0);
  std::vector<torch::Tensor> log_p{first.narrow(-1, 0, vocabulary_.size(0))};
  for (int64_t i = 1; i < vocabulary_.clusters(); ++i) {
    log_p.push_back(log_p_within(i) + first.narrow(-1, column(i), 1));
  }
  return torch::cat(log_p, -1);
}

}  // namespace deq::models
