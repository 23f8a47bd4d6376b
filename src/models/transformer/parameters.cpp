#include "models/transformer/parameters.h"

#include <fmt/format.h>

namespace deq::models {

std::string projection_name(const std::string& list, int64_t cluster,
                            const AdaptiveVocabulary& vocabulary) {
  return fmt::format("{}.{}{}", list, cluster, vocabulary.projections_are_layers ? ".weight" : "");
}

torch::Tensor normal_numbers(c10::IntArrayRef shape, double spread,
                             const std::optional<at::Generator>& generator) {
  return torch::empty(shape).normal_(0, spread, generator);
}

double layer_spread(const TransformerOptions& options) {
  return options.weight_norm && options.default_init_when_normalised ? -1 : options.init_std;
}

}  // namespace deq::models
