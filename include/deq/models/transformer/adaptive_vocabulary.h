#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace deq::models {

/// How words are embedded and predicted (Grave et al. 2017, Baevski & Auli 2019). Words are
/// numbered by falling frequency; the cutoffs divide them into clusters. A prediction decides
/// between the words of the first cluster and the other clusters, and then, if need be, within one
/// of these. With div_val > 1 every cluster has a table of its own, narrower the rarer its words.
struct AdaptiveVocabulary {
  int64_t words = 1;               ///< ≥ 1
  std::vector<int64_t> cutoffs{};  ///< first word of every cluster except the first: 0 < … < words
  int64_t d_model = 1;             ///< width of what is embedded and predicted from, ≥ 1
  int64_t d_embed = 1;     ///< width of the first cluster's table, ≥ div_val^(clusters − 1)
  int64_t div_val = 1;     ///< of a cluster's width by the next one's, ≥ 1
  double init_std = 0.01;  ///< of all weights at the start, ≥ 0
  double projection_init_std = 0.01;  ///< of the projections, ≥ 0
  /// The projection of cluster 0 is the parameter emb_projs.0.weight; else it is emb_projs.0.
  bool projections_are_layers = true;
  bool scaled = true;  ///< whether embedded vectors are times √d_model

  int64_t clusters() const { return static_cast<int64_t>(cutoffs.size()) + 1; }
  int64_t first_word(int64_t cluster) const;
  int64_t size(int64_t cluster) const { return first_word(cluster + 1) - first_word(cluster); }
  int64_t width(int64_t cluster) const;  ///< d_embed / div_valᶜˡᵘˢᵗᵉʳ, rounded down

  bool one_table() const { return div_val == 1; }
  bool projected() const { return div_val > 1 || d_embed != d_model; }
};

/// Throws Error naming the field, its value and the constraint.
void validate(const AdaptiveVocabulary& vocabulary);

/// Throws Error unless all tokens are words from `first` to before `end`. Costs one read from a
/// GPU.
void require_words(const torch::Tensor& tokens, int64_t first, int64_t end);

/// Those of many tokens that one cluster holds.
struct ClusterTokens {
  torch::Tensor positions;  ///< where they are, increasing
  torch::Tensor words;      ///< counted from the cluster's first word

  bool empty() const { return positions.numel() == 0; }
};

/// Sorts tokens [N] into the clusters between `bounds`: cluster i holds
/// bounds[i] ≤ word < bounds[i + 1]. Error for a word that none of them holds. Costs one read from
/// a GPU.
std::vector<ClusterTokens> part_by_cluster(const torch::Tensor& tokens,
                                           const std::vector<int64_t>& bounds);

}  // namespace deq::models
