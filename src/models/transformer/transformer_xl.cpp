#include "deq/models/transformer/transformer_xl.h"

#include <ATen/ops/dropout.h>

#include "core/require.h"
#include "models/transformer/checks.h"
#include "models/transformer/memory.h"
#include "models/transformer/parameters.h"
#include "models/transformer/transformer_xl_layer.h"

namespace deq::models {

void validate(const TransformerXlOptions& options) {
  check_transformer("transformer-xl", options);
  require(options.layers >= 1, "transformer-xl: layers = {}, must be ≥ 1", options.layers);
  require(options.horizon >= 0, "transformer-xl: horizon = {}, must be ≥ 0", options.horizon);
  require(options.clamp_distance >= 0, "transformer-xl: clamp_distance = {}, must be ≥ 0",
          options.clamp_distance);
  validate(adaptive_vocabulary(options));
}

TransformerXLImpl::TransformerXLImpl(const TransformerXlOptions& options,
                                     const std::optional<at::Generator>& generator)
    : options_((validate(options), options)) {
  embedding_ =
      register_module("word_emb", AdaptiveEmbedding(adaptive_vocabulary(options), generator));
  layers_ = register_layers(*this, "layers", options, generator);
  const AdaptiveTies ties{.weights = options.tie_weights, .projections = options.tie_projections};
  softmax_ = register_module("crit", AdaptiveSoftmax(embedding_, ties, generator));
  positions_ = register_module("pos_emb", PositionalEncoding(options.d_model));
  const auto bias = [&] {
    return normal_numbers({options.heads, options.d_head}, options.init_std, generator);
  };
  content_bias_ = register_parameter("r_w_bias", bias());
  position_bias_ = register_parameter("r_r_bias", bias());
}

void TransformerXLImpl::check(const torch::Tensor& tokens,
                              const TransformerXlMemory& memory) const {
  check_tokens("transformer-xl", tokens);
  check_memory("transformer-xl", memory, layers_.size() + 1, {tokens.size(0), options_.d_model});
}

TransformerXlReading TransformerXLImpl::read(const torch::Tensor& tokens,
                                             const TransformerXlMemory& memory) {
  check(tokens, memory);
  const auto length = tokens.size(1), keys = memory.length() + length;
  const auto dropped = [this](const torch::Tensor& x) {
    return at::dropout(x, options_.dropout, is_training());
  };
  auto x = dropped(embedding_(tokens));
  const auto distances = dropped(positions_(keys, options_.clamp_distance));
  const auto terms = shared_terms(content_bias_, position_bias_, options_.horizon,
                                  {.length = length, .keys = keys}, x.device());
  LayerMemory remembered(memory);
  x = through_layers(layers_, x, distances, terms, remembered);
  remembered.past_of(x);
  return {.hidden = dropped(x), .memory = remembered.after()};
}

TransformerXlOutput TransformerXLImpl::forward(const torch::Tensor& tokens,
                                               const torch::Tensor& targets,
                                               const TransformerXlMemory& memory) {
  require(tokens.sizes() == targets.sizes(),
          "transformer-xl: targets of shape {} for tokens of shape {}, must be the same",
          targets.sizes(), tokens.sizes());
  auto reading = read(tokens, memory);
  auto nll = softmax_(reading.hidden, targets);
  return {.nll = std::move(nll), .reading = std::move(reading)};
}

torch::Tensor TransformerXLImpl::log_probabilities(const torch::Tensor& hidden) {
  return softmax_->log_probabilities(hidden);
}

std::vector<TiedName> TransformerXLImpl::tied() const {
  return with_model_names(softmax_->tied());
}

}  // namespace deq::models
