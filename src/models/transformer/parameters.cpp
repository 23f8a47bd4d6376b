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
  return {.words = options.vocabulary,
          .cutoffs = options.cutoffs,
          .d_model = options.d_model,
          .d_embed = options.d_embed,
          .div_val = options.div_val,
          .init_std = options.init_std,
          .projections_are_layers = false};
}

AdaptiveVocabulary adaptive_vocabulary(const Gpt2Options& options) {
  // Projected words of the first cluster begin as large as those of a model without projections.
  const auto width = static_cast<double>(std::max<int64_t>(options.d_embed, 1));
  return {.words = options.vocabulary,
          .cutoffs = options.cutoffs,
          .d_model = options.d_model,
          .d_embed = options.d_embed,
          .div_val = options.div_val,
          .init_std = options.init_std,
          .projection_init_std = 1 / std::sqrt(width),
          .projections_are_layers = false};
}

double layer_spread(const TransformerOptions& options) {
  return options.weight_norm && options.default_init_when_normalised ? -1 : options.init_std;
}

}  // namespace deq::models
