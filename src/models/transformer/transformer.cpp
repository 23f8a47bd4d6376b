#include "deq/models/transformer/transformer.h"

#include <ATen/ops/addmm.h>

#include "core/require.h"
#include "kernels/common/tensor_cores.h"
#include "models/transformer/linear.h"
#include "models/transformer/memory.h"
#include "replay/replayed_function.h"

namespace deq::models {

DeqTransformerImpl::DeqTransformerImpl(const TransformerOptions& options,
                                       const std::optional<at::Generator>& generator)
    : options_((validate(options), options)),
      embedding_(
          register_module("word_emb", AdaptiveEmbedding(adaptive_vocabulary(options), generator))),
      injection_(register_module(
          "inject_conv", std::make_shared<TransformerLinear>(
                             TransformerLinearOptions{.in = options.d_model,
                                                      .out = 3 * options.heads * options.d_head,
                                                      .pointwise_convolution = true,
                                                      .spread = options.init_std},
                             generator))),
      positions_(register_module("pos_emb", PositionalEncoding(options.d_model))),
      cell_(register_module("func", TransformerCell(options, generator))),
      layer_(cell_),
      softmax_(
          register_module("crit", AdaptiveSoftmax(embedding_, adaptive_ties(options), generator))),
      dropout_(register_module("iodrop", VariationalDropout(options.dropout))),
      replayed_injection_(std::make_shared<ReplayedFunction>(
          std::vector<std::shared_ptr<torch::nn::Module>>{embedding_.ptr(), injection_,
                                                          dropout_.ptr()},
          [this](const auto& tokens) { return injected(tokens[0]); })) {}

TransformerOutput DeqTransformerImpl::forward(const torch::Tensor& tokens,
                                              const torch::Tensor& targets,
                                              const TransformerMemory& memory,
                                              const EquilibriumPlan& plan) {
  require(tokens.sizes() == targets.sizes(),
          "transformer: targets of shape {} for tokens of shape {}, must be the same",
          targets.sizes(), tokens.sizes());
  auto reading = read(tokens, memory, plan);
  auto nll = cost(reading.hidden, targets);
  return {.nll = std::move(nll), .reading = std::move(reading)};
}

TransformerReading DeqTransformerImpl::read(const torch::Tensor& tokens,
                                            const TransformerMemory& memory,
                                            const EquilibriumPlan& plan,
                                            const torch::Tensor& start) {
  const auto injection = inject(tokens, plan.options().replay);
  const auto inputs = cell_inputs(injection, memory);
  auto equilibrium =
      layer_->forward(inputs, {.start = start.defined() ? State{start} : State{}, .plan = &plan});
  const auto& z = equilibrium.z();
  TransformerMemory after{.capacity = memory.capacity,
                          .z = last_positions(memory.z, z, memory.capacity),
                          .u = last_positions(memory.u, injection, memory.capacity)};
  return {.hidden = without_dropped_outputs(z),
          .memory = std::move(after),
          .equilibrium = std::move(equilibrium)};
}

torch::Tensor DeqTransformerImpl::cost(const torch::Tensor& hidden, const torch::Tensor& targets) {
  return softmax_(hidden, targets);
}

torch::Tensor DeqTransformerImpl::log_probabilities(const torch::Tensor& hidden) {
  return softmax_->log_probabilities(hidden);
}

torch::Tensor DeqTransformerImpl::inject(const torch::Tensor& tokens, Replay replay) {
  check_tokens("transformer", tokens);
  require_words(tokens, 0, options_.vocabulary);
  return (*replayed_injection_)({tokens}, replay);
}

torch::Tensor DeqTransformerImpl::injected(const torch::Tensor& tokens) {
  auto embedded = embedding_->embed(tokens);
  const auto mask = dropout_->mask({tokens.size(0), 1, options_.d_model},
                                   embedded.options().requires_grad(false));
  if (mask.defined()) embedded = embedded * mask;
  const auto matrix = injection_->matrix();
  const auto u = at::addmm(injection_->bias_for(matrix),
                           kernels::factor_of(embedded.flatten(0, 1), matrix), matrix)
                     .narrow(1, 0, injection_->bias().size(0));
  // Autocast may have left another type; that of the injection becomes the state's.
  return u.to(embedded.scalar_type()).reshape({tokens.size(0), tokens.size(1), -1});
}

Inputs DeqTransformerImpl::cell_inputs(const torch::Tensor& injection,
                                       const TransformerMemory& memory) {
  require(memory.capacity >= 0, "transformer: a memory's capacity = {}, must be ≥ 0",
          memory.capacity);
  require(memory.z.defined() == memory.u.defined(),
          "transformer: a memory needs both equilibria and injections, or neither");
  auto positions = positions_(memory.length() + injection.size(1));
  const auto mask = dropout_->mask({1, options_.d_model}, positions.options());
  if (mask.defined()) positions = positions * mask;
  Inputs inputs{injection, positions};
  if (memory.length() > 0) inputs.insert(inputs.end(), {memory.z, memory.u});
  return inputs;
}

torch::Tensor DeqTransformerImpl::without_dropped_outputs(const torch::Tensor& z) const {
  const auto plain = z.options().requires_grad(false);
  const auto mask = options_.output_drops_positions
                        ? dropout_->mask({z.size(0), z.size(1), 1}, plain)
                        : dropout_->mask({z.size(0), 1, z.size(2)}, plain);
  return mask.defined() ? z * mask : z;
}

std::vector<TiedName> DeqTransformerImpl::tied() const {
  return with_model_names(softmax_->tied());
}

}  // namespace deq::models
