#include "deq/models/toy.h"

#include "core/require.h"

namespace deq::models {

ToyCellImpl::ToyCellImpl(const ToyOptions& options, std::optional<at::Generator> generator) {
  require(options.hidden >= 1, "toy: hidden = {}, must be ≥ 1", options.hidden);
  require(options.x_min < options.x_max, "toy: x_min = {:g} must be below x_max = {:g}",
          options.x_min, options.x_max);
  const auto uniform = [&](c10::IntArrayRef shape, double low, double high) {
    return torch::rand(shape, generator) * (high - low) + low;
  };
  const auto hidden = options.hidden;
  // Steep units that open to the right and to the left in turn, with kinks −b/U that cover the
  // inputs evenly, and a small W₂: from there 3,200 steps of Adam at 10⁻³ fit the target nearly to
  // the noise. W₁ has the signs of W₂, so that f starts as a contraction with a positive slope in
  // z: something is there for the penalty to flatten.
  const auto sides = (1 - 2 * (torch::arange(hidden) % 2)).view({hidden, 1});
  u_ = register_parameter("u", sides * uniform({hidden, 1}, 3, 6));
  const auto fractions = (torch::arange(hidden) + uniform({hidden}, 0, 1)) / hidden;
  const auto kinks = options.x_min + (options.x_max - options.x_min) * fractions;
  b_ = register_parameter("b", -u_.detach().squeeze(1) * kinks);
  w2_ = register_parameter("w2", uniform({hidden, 1}, -0.05, 0.05));
  w1_ = register_parameter("w1", w2_.detach().sign() * uniform({hidden, 1}, 0, 0.8));
}

State ToyCellImpl::initial_state(const Inputs& inputs) {
  return {torch::zeros_like(inputs.at(0))};
}

Context ToyCellImpl::prepare(const Inputs& inputs) {
  return {torch::addmm(b_, inputs.at(0), u_.t()), w1_.t()};
}

State ToyCellImpl::step(const State& z, const Context& context) {
  return {torch::mm(torch::addmm(context[0], z[0], context[1]).relu_(), w2_)};
}

}  // namespace deq::models
