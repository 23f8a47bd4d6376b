#include "deq/models/recurrent/relational_memory_options.h"

#include <string_view>

#include "core/require.h"
#include "models/recurrent/relational_core.h"
#include "models/transformer/parameters.h"

namespace deq::models {

AdaptiveVocabulary adaptive_vocabulary(const RelationalMemoryOptions& options) {
  return plain_vocabulary(options);
}

void validate(const RelationalMemoryOptions& options) {
  constexpr std::string_view kWho = "relational memory";
  const auto at_least_one = [kWho](std::string_view field, int64_t value) {
    require(value >= 1, "{}: {} = {}, must be ≥ 1", kWho, field, value);
  };
  at_least_one("slots", options.slots);
  at_least_one("heads", options.heads);
  at_least_one("head_size", options.head_size);
  at_least_one("blocks", options.blocks);
  at_least_one("mlp_layers", options.mlp_layers);
  const auto rate = [kWho](std::string_view field, double value) {
    require(value >= 0 && value < 1, "{}: {} = {:g}, must be in [0, 1)", kWho, field, value);
  };
  rate("embedding_dropout", options.embedding_dropout);
  rate("output_dropout", options.output_dropout);
  validate(adaptive_vocabulary(options));
}

}  // namespace deq::models
