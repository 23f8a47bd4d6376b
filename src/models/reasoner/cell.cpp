#include "deq/models/reasoner/cell.h"

#include "core/require.h"
#include "models/reasoner/block.h"

namespace deq::models {

ReasonerCellImpl::ReasonerCellImpl(const ReasonerOptions& options,
                                   const std::optional<at::Generator>& generator)
    : options_((validate(options), options)),
      block_(register_module("block", std::make_shared<ReasonerBlock>(options, generator))) {}

void ReasonerCellImpl::check(const Inputs& inputs) const {
  require(inputs.size() == 1 && inputs[0].dim() == 3 && inputs[0].size(1) == options_.tokens &&
              inputs[0].size(2) == options_.width,
          "reasoner: the input must be an embedded puzzle [B, {}, {}]", options_.tokens,
          options_.width);
}

State ReasonerCellImpl::initial_state(const Inputs& inputs) {
  check(inputs);
  const auto zeros = torch::zeros_like(inputs[0].detach());
  return {zeros, zeros};
}

Context ReasonerCellImpl::prepare(const Inputs& inputs) {
  check(inputs);
  Context context{inputs[0]};
  if (!is_training() || options_.noise == 0) return context;
  for (int64_t update = 0; update <= options_.inner_steps; ++update) {
    context.push_back(torch::randn_like(inputs[0].detach()) * options_.noise);
  }
  return context;
}

State ReasonerCellImpl::step(const State& state, const Context& context) {
  const auto update = [&](const torch::Tensor& s, const torch::Tensor& seen, int64_t number) {
    auto next = block_->forward(seen).to(s.scalar_type());
    if (options_.damping < 1) next = torch::lerp(s, next, options_.damping);
    const auto noise = static_cast<size_t>(number + 1);
    return noise < context.size() ? next + context[noise] : next;
  };
  auto y = state[0], z = state[1];
  const auto& x = context[0];
  for (int64_t k = 0; k < options_.inner_steps; ++k) z = update(z, z + (y + x), k);
  y = update(y, y + z, options_.inner_steps);
  return {y, z};
}

std::optional<ReplayKey> ReasonerCellImpl::replay_key() const {
  return ReplayKey{static_cast<double>(options_.inner_steps), options_.damping, options_.noise};
}

}  // namespace deq::models
