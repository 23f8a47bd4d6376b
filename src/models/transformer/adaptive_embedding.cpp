#include "deq/models/transformer/adaptive_embedding.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <cmath>

#include "models/module_tree.h"
#include "models/transformer/parameters.h"

namespace deq::models {

AdaptiveEmbeddingImpl::AdaptiveEmbeddingImpl(const AdaptiveVocabulary& vocabulary,
                                             const std::optional<at::Generator>& generator)
    : vocabulary_((validate(vocabulary), vocabulary)) {
  const auto count = vocabulary.one_table() ? 1 : vocabulary.clusters();
  for (int64_t i = 0; i < count; ++i) {
    const auto words = vocabulary.one_table() ? vocabulary.words : vocabulary.size(i);
    tables_.push_back(register_parameter_at(
        *this, fmt::format("emb_layers.{}.weight", i),
        normal_numbers({words, vocabulary.width(i)}, vocabulary.init_std, generator)));
    if (!vocabulary.projected()) continue;
    projections_.push_back(
        register_parameter_at(*this, projection_name("emb_projs", i, vocabulary),
                              normal_numbers({vocabulary.d_model, vocabulary.width(i)},
                                             vocabulary.projection_init_std, generator)));
  }
}

torch::Tensor AdaptiveEmbeddingImpl::forward(const torch::Tensor& tokens) {
  require_words(tokens, 0, vocabulary_.words);
  return embed(tokens);
}

torch::Tensor AdaptiveEmbeddingImpl::embed(const torch::Tensor& tokens) const {
  // Every token looks into all tables, and finds zeros in those of other clusters. So no shape
  // depends on the words, and one product serves all clusters.
  std::vector<torch::Tensor> found;
  for (size_t i = 0; i < tables_.size(); ++i) {
    const auto first = tables_.size() == 1 ? 0 : vocabulary_.first_word(static_cast<int64_t>(i));
    const auto words = tables_[i].size(0);
    const auto place = (tokens - first).clamp(0, words - 1);
    auto vectors = at::embedding(tables_[i], place);
    if (tables_.size() > 1) {
      const auto own = place.eq(tokens - first).unsqueeze(-1);
      vectors = vectors * own.to(vectors.scalar_type());
    }
    found.push_back(vectors);
  }
  auto vectors = found.size() == 1 ? found.front() : torch::cat(found, -1);
  if (!projections_.empty()) {
    const auto projection =
        projections_.size() == 1 ? projections_.front() : torch::cat(projections_, 1);
    vectors = at::matmul(vectors, projection.t()).to(vectors.scalar_type());
  }
  return vocabulary_.scaled ? vectors * std::sqrt(static_cast<double>(vocabulary_.d_model))
                            : vectors;
}

}  // namespace deq::models
