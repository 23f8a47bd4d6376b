#include "deq/models/reasoner/cell.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/autocast.h"
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

// The puzzle, the noise of every update if there is any, and under autocast the block's matrices:
// those of a solve are cast once.
Context ReasonerCellImpl::prepare(const Inputs& inputs) {
  check(inputs);
  const auto type = compute_type(inputs[0]);
  Context context{inputs[0].to(type)};
  if (is_training() && options_.noise > 0) {
    for (int64_t update = 0; update <= options_.inner_steps; ++update) {
      context.push_back(torch::randn_like(context[0].detach()) * options_.noise);
    }
  }
  if (type != inputs[0].scalar_type()) {
    for (auto& matrix : block_->matrices(type)) context.push_back(std::move(matrix));
  }
  return context;
}

State ReasonerCellImpl::step(const State& state, const Context& context) {
  const auto cast = std::ranges::find(context, 2, &torch::Tensor::dim);
  const auto own = cast == context.end() ? block_->parameters() : std::vector<torch::Tensor>{};
  const Matrices matrices = own.empty() ? Matrices(cast, context.end()) : Matrices(own);
  const bool noisy = cast - context.begin() > 1;
  const auto update = [&](const torch::Tensor& s, const torch::Tensor& seen, int64_t number) {
    auto next = block_->forward(seen, matrices);
    if (options_.damping < 1) next = torch::lerp(s, next, options_.damping);
    return noisy ? next + context[static_cast<size_t>(number + 1)] : next;
  };
  // Between two states all is computed in one type.
  const auto& x = context[0];
  auto y = state[0].to(x.scalar_type()), z = state[1].to(x.scalar_type());
  const auto injected = y + x;
  for (int64_t k = 0; k < options_.inner_steps; ++k) z = update(z, z + injected, k);
  y = update(y, y + z, options_.inner_steps);
  const auto kept = state[0].scalar_type();
  return {y.to(kept), z.to(kept)};
}

std::optional<ReplayKey> ReasonerCellImpl::replay_key() const {
  return ReplayKey{static_cast<double>(options_.inner_steps), options_.damping, options_.noise};
}

}  // namespace deq::models
