#include "deq/models/recurrent/qrnn_options.h"

#include <cmath>
#include <string_view>

#include "core/require.h"
#include "models/recurrent/qrnn_vocabulary.h"

namespace deq::models {

void validate(const QrnnOptions& options) {
  const auto at_least_one = [](std::string_view field, int64_t value) {
    require(value >= 1, "awd-qrnn: {} = {}, must be ≥ 1", field, value);
  };
  at_least_one("vocabulary", options.vocabulary);
  at_least_one("layers", options.layers);
  at_least_one("d_embed", options.d_embed);
  at_least_one("d_hidden", options.d_hidden);
  at_least_one("window", options.window);
  const auto rate = [](std::string_view field, double value) {
    require(value >= 0 && value < 1, "awd-qrnn: {} = {:g}, must be in [0, 1)", field, value);
  };
  rate("embedding_dropout", options.embedding_dropout);
  rate("input_dropout", options.input_dropout);
  rate("hidden_dropout", options.hidden_dropout);
  rate("output_dropout", options.output_dropout);
  rate("weight_dropout", options.weight_dropout);
  const auto not_negative = [](std::string_view field, double value) {
    require(value >= 0, "awd-qrnn: {} = {:g}, must be ≥ 0", field, value);
  };
  not_negative("activation_penalty", options.activation_penalty);
  not_negative("slowness_penalty", options.slowness_penalty);
  not_negative("init_std", options.init_std);
  validate(adaptive_vocabulary(options));
}

AdaptiveVocabulary adaptive_vocabulary(const QrnnOptions& options) {
  // Where clusters are projected, an embedded word of the first is as large as its vector.
  return {.words = options.vocabulary,
          .cutoffs = options.cutoffs,
          .d_model = options.d_embed,
          .d_embed = options.d_embed,
          .div_val = options.div_val,
          .init_std = options.init_std,
          .projection_init_std = 1 / std::sqrt(static_cast<double>(options.d_embed)),
          .projections_are_layers = false,
          .scaled = false};
}

}  // namespace deq::models
