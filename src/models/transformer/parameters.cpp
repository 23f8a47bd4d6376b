#include "models/transformer/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace deq::models {

std::string projection_name(const std::string& list, int64_t cluster,
                            const AdaptiveVocabulary& vocabulary) {
  return fmt::format("{}.{}{}", list, cluster, vocabulary.projections_are_layers ? ".weight" : "");
}

torch::Tensor normal_numbers(c10::IntArrayRef shape, double spread,
                             const std::optional<at::Generator>& generator) {
  return torch::empty(shape).normal_(0, spread, generator);
}

AdaptiveVocabulary adaptive_vocabulary(const TransformerXlOptions& options) {
  return plain_vocabulary(options);
}

AdaptiveVocabulary adaptive_vocabulary(const Gpt2Options& options) {
  // Projected words of the first cluster begin as large as those of a model without projections.
  const auto width = static_cast<double>(std::max<int64_t>(options.d_embed, 1));
  auto vocabulary = plain_vocabulary(options);
  vocabulary.projection_init_std = 1 / std::sqrt(width);
  return vocabulary;
}

double layer_spread(const TransformerOptions& options) {
  return options.weight_norm && options.default_init_when_normalised ? -1 : options.init_std;
}

}  // namespace deq::models
