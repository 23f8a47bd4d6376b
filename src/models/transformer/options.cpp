#include "deq/models/transformer/options.h"

#include "core/require.h"
#include "models/transformer/checks.h"

namespace deq::models {

AdaptiveVocabulary adaptive_vocabulary(const TransformerOptions& options) {
  return {.words = options.vocabulary,
          .cutoffs = options.cutoffs,
          .d_model = options.d_model,
          .d_embed = options.d_embed,
          .div_val = options.div_val,
          .init_std = options.init_std};
}

AdaptiveTies adaptive_ties(const TransformerOptions& options) {
  return {.weights = options.tie_weights, .projections = options.tie_projections};
}

void validate(const TransformerOptions& options) {
  check_transformer("transformer", options);
  require(options.horizon >= 1, "transformer: horizon = {}, must be ≥ 1", options.horizon);
  validate(adaptive_vocabulary(options));
}

}  // namespace deq::models
