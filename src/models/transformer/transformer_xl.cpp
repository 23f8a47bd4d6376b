#include "deq/models/transformer/transformer_xl.h"

#include <ATen/ops/dropout.h>

#include "core/require.h"
#include "models/transformer/checks.h"
#include "models/transformer/memory.h"
#include "models/transformer/parameters.h"
#include "models/transformer/transformer_xl_layer.h"

namespace deq::models {
namespace {

AdaptiveVocabulary vocabulary_of(const TransformerXlOptions& options) {
  return {.words = options.vocabulary,
          .cutoffs = options.cutoffs,
          .d_model = options.d_model,
          .d_embed = options.d_embed,
          .div_val = options.div_val,
          .init_std = options.init_std,
          .projections_are_layers = false};
}

}  // namespace

void validate(const TransformerXlOptions& options) {
  check_transformer("transformer-xl", options);
  require(options.layers >= 1, "transformer-xl: layers = {}, must be ≥ 1", options.layers);
  require(options.horizon >= 0, "transformer-xl: horizon = {}, must be ≥ 0", options.horizon);
  require(options.clamp_distance >= 0, "transformer-xl: clamp_distance = {}, must be ≥ 0",
          options.clamp_distance);
  validate(vocabulary_of(options));
}

TransformerXLImpl::TransformerXLImpl(const TransformerXlOptions& options,
                                     const std::optional<at::Generator>& generator)
    : options_((validate(options), options)) {
  embedding_ = register_module("word_emb", AdaptiveEmbedding(vocabulary_of(options), generator));
  const auto list = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(list->register_module(
        std::to_string(i), std::make_shared<TransformerXlLayer>(options, generator)));
  }
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
  require(memory.capacity >= 0, "transformer-xl: a memory's capacity = {}, must be ≥ 0",
          memory.capacity);
  require(memory.layers.empty() || memory.layers.size() == layers_.size() + 1,
          "transformer-xl: a memory of {} layers, must have {} or none", memory.layers.size(),
          layers_.size() + 1);
  const std::vector<int64_t> shape{tokens.size(0), memory.length(), options_.d_model};
  for (const auto& layer : memory.layers) {
    require(layer.sizes() == shape, "transformer-xl: a memory of shape {}, must be {}",
            layer.sizes(), c10::IntArrayRef(shape));
  }
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
  kernels::AttentionTerms terms{};
  terms.content_bias = content_bias_;
  terms.position_bias = position_bias_;
  terms.horizon = options_.horizon;
  terms.mask = kernels::attention_mask(length, keys, options_.horizon, x.device());
  TransformerXlMemory after{.capacity = memory.capacity};
  const auto remember = [&](size_t layer) {
    if (memory.capacity == 0) return;
    const auto known = memory.layers.empty() ? torch::Tensor() : memory.layers[layer];
    after.layers.push_back(last_positions(known, x, memory.capacity));
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    remember(i);
    const auto known = memory.length() == 0 ? torch::Tensor() : memory.layers[i];
    x = layers_[i]->forward(x, known, distances, terms);
  }
  remember(layers_.size());
  return {.hidden = dropped(x), .memory = std::move(after)};
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
