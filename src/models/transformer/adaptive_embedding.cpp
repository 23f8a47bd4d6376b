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

torch::Tensor AdaptiveEmbeddingImpl::embed(size_t table, const torch::Tensor& words) const {
  const auto narrow = at::embedding(tables_[table], words);
  return projections_.empty() ? narrow : at::matmul(narrow, projections_[table].t());
}

torch::Tensor AdaptiveEmbeddingImpl::forward(const torch::Tensor& tokens) {
  std::vector<int64_t> bounds{0};
  for (int64_t i = 1; i < vocabulary_.clusters() && !vocabulary_.one_table(); ++i) {
    bounds.push_back(vocabulary_.first_word(i));
  }
  bounds.push_back(vocabulary_.words);
  const auto flat = tokens.reshape(-1);
  const auto parts = part_by_cluster(flat, bounds);
  auto vectors = torch::zeros({flat.size(0), vocabulary_.d_model},
                              tables_.front().options().requires_grad(false));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    vectors.index_copy_(0, parts[i].positions, embed(i, parts[i].words).to(vectors.scalar_type()));
  }
  auto shape = tokens.sizes().vec();
  shape.push_back(vocabulary_.d_model);
  return (vectors * std::sqrt(static_cast<double>(vocabulary_.d_model))).view(shape);
}

}  // namespace deq::models
