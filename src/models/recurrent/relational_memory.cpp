#include "deq/models/recurrent/relational_memory.h"

#include <ATen/ops/dropout.h>

#include "core/require.h"
#include "models/linear.h"
#include "models/recurrent/relational_core.h"
#include "models/transformer/memory.h"
#include "models/transformer/parameters.h"
#include "replay/replayed_function.h"

namespace deq::models {

RelationalMemoryImpl::RelationalMemoryImpl(const RelationalMemoryOptions& options,
                                           const std::optional<at::Generator>& generator)
    : options_((validate(options), options)) {
  embedding_ =
      register_module("word_emb", AdaptiveEmbedding(adaptive_vocabulary(options), generator));
  core_ = register_module("core", std::make_shared<RelationalCore>(options, generator));
  output_ = register_module("output", drawn_linear(options.units(), options.d_model, generator));
  const AdaptiveTies ties{.weights = options.tie_weights, .projections = options.tie_projections};
  softmax_ = register_module("crit", AdaptiveSoftmax(embedding_, ties, generator));
  // A segment is thousands of small steps, none of which a GPU should wait for the host with.
  replayed_core_ = std::make_shared<ReplayedFunction>(
      std::vector<std::shared_ptr<torch::nn::Module>>{core_},
      [core = core_.get()](const auto& inputs) { return core->forward(inputs[0], inputs[1]); });
}

torch::Tensor RelationalMemoryImpl::first_memory(int64_t batch) const {
  const auto& like = output_->weight;
  return torch::eye(options_.slots, options_.slot_size(), like.options().requires_grad(false))
      .unsqueeze(0)
      .repeat({batch, 1, 1});
}

RelationalMemoryReading RelationalMemoryImpl::read(const torch::Tensor& tokens,
                                                   const torch::Tensor& memory, Replay replay) {
  check_tokens("relational memory", tokens);
  const std::vector<int64_t> sizes{tokens.size(0), options_.slots, options_.slot_size()};
  require(!memory.defined() || memory.sizes() == sizes,
          "relational memory: a memory of shape {}, must be {} or undefined", memory.sizes(),
          c10::IntArrayRef(sizes));
  const auto words = at::dropout(embedding_(tokens), options_.embedding_dropout, is_training());
  const auto before = memory.defined() ? memory.detach() : first_memory(tokens.size(0));
  const auto memories = (*replayed_core_)({words, before}, replay);
  const auto seen = at::dropout(memories, options_.output_dropout, is_training());
  return {.hidden = linear(output_, seen).to(words.scalar_type()),
          .memory = memories.detach().select(1, -1).view(sizes).clone()};
}

RelationalMemoryOutput RelationalMemoryImpl::forward(const torch::Tensor& tokens,
                                                     const torch::Tensor& targets,
                                                     const torch::Tensor& memory, Replay replay) {
  require(tokens.sizes() == targets.sizes(),
          "relational memory: targets of shape {} for tokens of shape {}, must be the same",
          targets.sizes(), tokens.sizes());
  auto reading = read(tokens, memory, replay);
  auto nll = softmax_(reading.hidden, targets);
  return {.nll = std::move(nll), .reading = std::move(reading)};
}

torch::Tensor RelationalMemoryImpl::log_probabilities(const torch::Tensor& hidden) {
  return softmax_->log_probabilities(hidden);
}

std::vector<TiedName> RelationalMemoryImpl::tied() const {
  return with_model_names(softmax_->tied());
}

}  // namespace deq::models
