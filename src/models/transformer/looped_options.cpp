#include "deq/models/transformer/looped_options.h"

#include "core/require.h"
#include "models/transformer/checks.h"
#include "models/transformer/looped_parts.h"
#include "models/transformer/parameters.h"

namespace deq::models {

void validate(const LoopedTransformerOptions& options) {
  constexpr std::string_view kWho = "looped transformer";
  check_transformer(kWho, options);
  require(options.prelude >= 0, "{}: prelude = {}, must be ≥ 0", kWho, options.prelude);
  require(options.core >= 1, "{}: core = {}, must be ≥ 1", kWho, options.core);
  require(options.coda >= 0, "{}: coda = {}, must be ≥ 0", kWho, options.coda);
  require(options.horizon >= 0, "{}: horizon = {}, must be ≥ 0", kWho, options.horizon);
  require(options.start_std >= 0, "{}: start_std = {:g}, must be ≥ 0", kWho, options.start_std);
  validate(adaptive_vocabulary(explicit_part(options, 0)));
}

TransformerXlOptions explicit_part(const LoopedTransformerOptions& options, int64_t layers) {
  return {.vocabulary = options.vocabulary,
          .cutoffs = options.cutoffs,
          .div_val = options.div_val,
          .layers = layers,
          .d_model = options.d_model,
          .d_embed = options.d_embed,
          .heads = options.heads,
          .d_head = options.d_head,
          .d_inner = options.d_inner,
          .horizon = options.horizon,
          .pre_ln = options.pre_ln,
          .tie_weights = options.tie_weights,
          .tie_projections = options.tie_projections,
          .dropout = options.dropout,
          .attention_dropout = options.attention_dropout,
          .init_std = options.init_std};
}

TransformerOptions core_layer(const LoopedTransformerOptions& options) {
  return {.d_model = options.d_model,
          .heads = options.heads,
          .d_head = options.d_head,
          .d_inner = options.d_inner,
          .horizon = options.horizon,
          .weight_norm = false,
          .dropout = options.dropout,
          .attention_dropout = options.attention_dropout,
          .init_std = options.init_std};
}

}  // namespace deq::models
