#include "deq/models/reasoner/options.h"

#include "core/require.h"

namespace deq::models {

void validate(const ReasonerOptions& options) {
  const auto at_least = [](const char* field, int64_t value, int64_t least) {
    require(value >= least, "reasoner: {} = {}, must be ≥ {}", field, value, least);
  };
  at_least("vocabulary", options.vocabulary, 2);
  at_least("tokens", options.tokens, 1);
  at_least("width", options.width, 1);
  at_least("layers", options.layers, 1);
  at_least("expansion", options.expansion, 1);
  at_least("inner_multiple", options.inner_multiple, 1);
  at_least("heads", options.heads, 1);
  at_least("inner_steps", options.inner_steps, 1);
  require(!options.attention || options.width % (2 * options.heads) == 0,
          "reasoner: width = {}, must be a multiple of 2·heads = {}", options.width,
          2 * options.heads);
  require(options.damping > 0 && options.damping <= 1,
          "reasoner: damping = {:g}, must be in (0, 1]", options.damping);
  require(options.noise >= 0, "reasoner: noise = {:g}, must be ≥ 0", options.noise);
}

}  // namespace deq::models
