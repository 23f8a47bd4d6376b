#include "deq/models/transformer/gpt2.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/require.h"
#include "models/module_tree.h"
#include "models/transformer/gpt2_layer.h"
#include "models/transformer/memory.h"
#include "models/transformer/parameters.h"

namespace deq::models {
namespace {

/// A number that all processes of a group draw alike.
uint64_t shared_key(torch::Device device) {
  const auto number = at::randint(std::numeric_limits<int64_t>::max(), {1},
                                  torch::TensorOptions(device).dtype(torch::kInt64));
  return static_cast<uint64_t>(number.item<int64_t>());
}

}  // namespace

GPT2Impl::GPT2Impl(const Gpt2Options& options, const std::optional<at::Generator>& generator,
                   std::shared_ptr<TensorParallel> group)
    : options_((validate(options, part_of(group.get()).size), options)),
      group_(part_of(group.get()).size == 1 ? nullptr : std::move(group)) {
  embedding_ =
      register_module("word_emb", AdaptiveEmbedding(adaptive_vocabulary(options), generator));
  positions_ = register_parameter_at(
      *this, "position_emb.weight",
      normal_numbers({options.positions, options.d_model}, options.init_std, generator));
  const auto list = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(list->register_module(
        std::to_string(i), std::make_shared<Gpt2Layer>(options, generator, group_)));
  }
  final_norm_ = register_module(
      "final_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.d_model})));
  const AdaptiveTies ties{.weights = options.tie_weights, .projections = options.tie_projections};
  softmax_ = register_module("crit", AdaptiveSoftmax(embedding_, ties, generator));
}

void GPT2Impl::check(const torch::Tensor& tokens, const Gpt2Memory& memory) const {
  check_tokens("gpt2", tokens);
  require(memory.capacity >= 0, "gpt2: a memory's capacity = {}, must be ≥ 0", memory.capacity);
  if (memory.tokens.defined()) {
    check_tokens("gpt2: a memory's", memory.tokens);
    require(memory.tokens.size(0) == tokens.size(0),
            "gpt2: a memory of {} rows for a text of {}, must be as many", memory.tokens.size(0),
            tokens.size(0));
  }
  require(memory.length() + tokens.size(1) <= options_.positions,
          "gpt2: {} remembered words and {} new ones, must be at most positions = {} together",
          memory.length(), tokens.size(1), options_.positions);
}

Gpt2Reading GPT2Impl::read(const torch::Tensor& tokens, const Gpt2Memory& memory) {
  check(tokens, memory);
  const auto window = memory.tokens.defined() ? torch::cat({memory.tokens, tokens}, 1) : tokens;
  const auto length = window.size(1);
  const auto words = embedding_(window) / std::sqrt(static_cast<double>(options_.d_model));
  auto x = at::dropout(words + positions_.narrow(0, 0, length), options_.dropout, is_training());
  std::optional<uint64_t> key;
  if (group_ && is_training() && options_.attention_dropout > 0) key = shared_key(x.device());
  for (const auto& layer : layers_) {
    x = layer->forward(x, key);
    if (key) *key += static_cast<uint64_t>(group_->size());
  }
  const auto kept = std::min(memory.capacity, length);
  Gpt2Memory after{.capacity = memory.capacity};
  if (kept > 0) after.tokens = window.narrow(1, length - kept, kept).clone();
  // Context is only read: words are predicted from the new positions.
  return {.hidden = final_norm_(x.narrow(1, memory.length(), tokens.size(1))),
          .memory = std::move(after)};
}

Gpt2Output GPT2Impl::forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                             const Gpt2Memory& memory) {
  require(tokens.sizes() == targets.sizes(),
          "gpt2: targets of shape {} for tokens of shape {}, must be the same", targets.sizes(),
          tokens.sizes());
  auto reading = read(tokens, memory);
  auto nll = softmax_(reading.hidden, targets);
  return {.nll = std::move(nll), .reading = std::move(reading)};
}

torch::Tensor GPT2Impl::log_probabilities(const torch::Tensor& hidden) {
  return softmax_->log_probabilities(hidden);
}

std::vector<TiedName> GPT2Impl::tied() const {
  return with_model_names(softmax_->tied());
}

}  // namespace deq::models
