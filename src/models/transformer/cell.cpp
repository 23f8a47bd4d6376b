#include "deq/models/transformer/cell.h"

#include <tuple>

#include "core/require.h"
#include "models/transformer/attention.h"
#include "models/transformer/context.h"
#include "models/transformer/feed_forward.h"
#include "models/transformer/start.h"

namespace deq::models {

TransformerCellImpl::TransformerCellImpl(const TransformerOptions& options,
                                         const std::optional<at::Generator>& generator)
    : d_model_((validate(options), options.d_model)),
      d_injection_(3 * options.heads * options.d_head),
      attention_(
          register_module("dec_attn", std::make_shared<TransformerAttention>(options, generator))),
      feed_forward_(
          register_module("pos_ff", std::make_shared<TransformerFeedForward>(options, generator))) {
  if (!options.predicted_start) return;
  start_ = register_module("start", std::make_shared<TransformerStart>(options, generator));
}

void TransformerCellImpl::check(const Inputs& inputs) const {
  require(inputs.size() == 2 || inputs.size() == 4,
          "transformer: {} inputs, must be injections and distances, and a memory's states and "
          "injections",
          inputs.size());
  const auto& injection = inputs[0];
  require(injection.dim() == 3 && injection.size(1) > 0 && injection.size(2) == d_injection_,
          "transformer: injections of shape {}, must be [B, q, {}] with q ≥ 1", injection.sizes(),
          d_injection_);
  const auto batch = injection.size(0);
  const auto memory = inputs.size() == 2 ? 0 : inputs[2].size(1);
  require(inputs[1].dim() == 2 && inputs[1].size(0) == memory + injection.size(1) &&
              inputs[1].size(1) == d_model_,
          "transformer: distances of shape {}, must be [{}, {}]", inputs[1].sizes(),
          memory + injection.size(1), d_model_);
  if (inputs.size() == 2) return;
  const std::vector<int64_t> z{batch, memory, d_model_}, u{batch, memory, d_injection_};
  require(inputs[2].sizes() == z && inputs[3].sizes() == u,
          "transformer: a memory of shapes {} and {}, must be {} and {}", inputs[2].sizes(),
          inputs[3].sizes(), c10::IntArrayRef(z), c10::IntArrayRef(u));
}

State TransformerCellImpl::initial_state(const Inputs& inputs) {
  check(inputs);
  const auto& injection = inputs[0];
  if (start_) return {start_->predict(injection)};
  return {torch::zeros({injection.size(0), injection.size(1), d_model_},
                       injection.options().requires_grad(false))};
}

Context TransformerCellImpl::prepare(const Inputs& inputs) {
  check(inputs);
  Context context(kTransformerSlots);
  const auto& injection = inputs[0];
  const auto numbers = injection.options().requires_grad(false);
  AttentionInputs seen{.batch = injection.size(0),
                       .length = injection.size(1),
                       .numbers = numbers,
                       .distances = inputs[1],
                       .injection = injection};
  if (inputs.size() > 2)
    std::tie(seen.memory, seen.memory_injection) = std::tie(inputs[2], inputs[3]);
  attention_->prepare(context, seen);
  feed_forward_->prepare(context, seen.batch, numbers);
  return context;
}

State TransformerCellImpl::step(const State& z, const Context& context) {
  require(context.size() == kTransformerSlots,
          "transformer: this context was not made by the cell's prepare()");
  return {feed_forward_->step(attention_->step(z[0], context), context)};
}

}  // namespace deq::models
