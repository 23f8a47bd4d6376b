#include "deq/models/transformer/looped.h"

#include <ATen/ops/dropout.h>

#include <utility>

#include "core/require.h"
#include "deq/core/interruption.h"
#include "models/transformer/looped_parts.h"
#include "models/transformer/memory.h"
#include "models/transformer/parameters.h"
#include "models/transformer/transformer_xl_layer.h"

namespace deq::models {

/// One reading of a text on its way.
struct LoopedTransformerImpl::Passage {
  torch::Tensor distances;
  kernels::AttentionTerms terms;
  LayerMemory memory;
  Inputs core;  // the cell's inputs
};

LoopedTransformerImpl::LoopedTransformerImpl(const LoopedTransformerOptions& options,
                                             const std::optional<at::Generator>& generator)
    : options_((validate(options), options)) {
  const auto prelude = explicit_part(options, options.prelude);
  embedding_ =
      register_module("word_emb", AdaptiveEmbedding(adaptive_vocabulary(prelude), generator));
  prelude_ = register_layers(*this, "prelude", prelude, generator);
  cell_ = register_module("core", LoopedCell(options, generator));
  layer_ = Equilibrium(cell_);
  coda_ = register_layers(*this, "coda", explicit_part(options, options.coda), generator);
  const AdaptiveTies ties{.weights = options.tie_weights, .projections = options.tie_projections};
  softmax_ = register_module("crit", AdaptiveSoftmax(embedding_, ties, generator));
  positions_ = register_module("pos_emb", PositionalEncoding(options.d_model));
  if (options.prelude + options.coda == 0) return;
  const auto bias = [&] {
    return normal_numbers({options.heads, options.d_head}, options.init_std, generator);
  };
  content_bias_ = register_parameter("r_w_bias", bias());
  position_bias_ = register_parameter("r_r_bias", bias());
}

void LoopedTransformerImpl::check(const torch::Tensor& tokens,
                                  const TransformerXlMemory& memory) const {
  check_tokens("looped transformer", tokens);
  const auto layers = static_cast<size_t>(options_.prelude + options_.core + options_.coda);
  check_memory("looped transformer", memory, layers, {tokens.size(0), options_.d_model});
}

torch::Tensor LoopedTransformerImpl::dropped(const torch::Tensor& x) const {
  return at::dropout(x, options_.dropout, is_training());
}

LoopedTransformerImpl::Passage LoopedTransformerImpl::begin(const torch::Tensor& tokens,
                                                            const TransformerXlMemory& memory) {
  check(tokens, memory);
  const auto length = tokens.size(1), keys = memory.length() + length;
  const auto words = dropped(embedding_(tokens));
  Passage passage{.distances = dropped(positions_(keys)),
                  .terms = shared_terms(content_bias_, position_bias_, options_.horizon,
                                        {.length = length, .keys = keys}, words.device()),
                  .memory = LayerMemory(memory),
                  .core = {}};
  passage.core = {through_layers(prelude_, words, passage.distances, passage.terms, passage.memory),
                  passage.distances};
  if (memory.length() > 0) {
    const auto first = memory.layers.begin() + options_.prelude;
    passage.core.insert(passage.core.end(), first, first + options_.core);
  }
  return passage;
}

torch::Tensor LoopedTransformerImpl::finish(Passage& passage, const torch::Tensor& s) {
  if (passage.memory.after().capacity == 0) {
    passage.memory.skip(static_cast<size_t>(options_.core));
  } else {
    // As past positions will be seen: at the state that they ended in. In training with dropout of
    // its own.
    const torch::NoGradGuard constant;
    const auto context = cell_->prepare(passage.core);
    for (const auto& h : cell_->layer_inputs({s}, context)) passage.memory.past_of(h);
  }
  return dropped(through_layers(coda_, s, passage.distances, passage.terms, passage.memory));
}

Inputs LoopedTransformerImpl::cell_inputs(const torch::Tensor& tokens,
                                          const TransformerXlMemory& memory) {
  return begin(tokens, memory).core;
}

LoopedReading LoopedTransformerImpl::read(const torch::Tensor& tokens,
                                          const TransformerXlMemory& memory,
                                          const EquilibriumPlan& plan, const torch::Tensor& start) {
  auto passage = begin(tokens, memory);
  auto equilibrium = layer_->forward(
      passage.core, {.start = start.defined() ? State{start} : State{}, .plan = &plan});
  auto hidden = finish(passage, equilibrium.z());
  return {.hidden = std::move(hidden),
          .memory = passage.memory.after(),
          .equilibrium = std::move(equilibrium)};
}

LoopedExitReading LoopedTransformerImpl::read_with_exits(const torch::Tensor& tokens,
                                                         const TransformerXlMemory& memory,
                                                         const LoopExits& exits) {
  require(exits.loops >= 1, "looped transformer: exits.loops = {}, must be ≥ 1", exits.loops);
  require(exits.rtol >= 0, "looped transformer: exits.rtol = {:g}, must be ≥ 0", exits.rtol);
  auto passage = begin(tokens, memory);
  const auto context = cell_->prepare(passage.core);
  auto s = cell_->initial_state(passage.core).front();
  auto inside = torch::ones(tokens.sizes(), tokens.options().dtype(torch::kBool));
  auto loops = torch::zeros_like(tokens);
  for (int64_t loop = 0; loop < exits.loops && inside.any().item<bool>(); ++loop) {
    check_interruption();
    const auto next = cell_->step({s}, context).front();
    const auto change = (next - s).norm(2, -1), size = next.norm(2, -1);
    loops = loops + inside;
    s = torch::where(inside.unsqueeze(-1), next, s);
    inside = inside.logical_and(change > exits.rtol * size);
  }
  auto hidden = finish(passage, s);
  return {.hidden = std::move(hidden), .memory = passage.memory.after(), .loops = loops};
}

LoopedOutput LoopedTransformerImpl::forward(const torch::Tensor& tokens,
                                            const torch::Tensor& targets,
                                            const TransformerXlMemory& memory,
                                            const EquilibriumPlan& plan) {
  require(tokens.sizes() == targets.sizes(),
          "looped transformer: targets of shape {} for tokens of shape {}, must be the same",
          targets.sizes(), tokens.sizes());
  auto reading = read(tokens, memory, plan);
  auto nll = cost(reading.hidden, targets);
  return {.nll = std::move(nll), .reading = std::move(reading)};
}

torch::Tensor LoopedTransformerImpl::cost(const torch::Tensor& hidden,
                                          const torch::Tensor& targets) {
  return softmax_(hidden, targets);
}

torch::Tensor LoopedTransformerImpl::log_probabilities(const torch::Tensor& hidden) {
  return softmax_->log_probabilities(hidden);
}

std::vector<TiedName> LoopedTransformerImpl::tied() const {
  return with_model_names(softmax_->tied());
}

}  // namespace deq::models
