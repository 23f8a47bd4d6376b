#include "deq/models/toy.h"

#include "deq/core/error.h"

namespace deq {

ToyCellImpl::ToyCellImpl(const ToyOptions& options, std::optional<at::Generator> generator) {
  require(options.hidden >= 1, "toy: hidden = ", options.hidden, ", must be ≥ 1");
  require(options.x_min < options.x_max, "toy: x_min = ", options.x_min, " must be below x_max = ",
          options.x_max);
  const auto uniform = [&](std::vector<int64_t> shape, double low, double high) {
    return torch::rand(shape, generator) * (high - low) + low;
  };
  const auto hidden = options.hidden;
  // Steep units whose kinks, −b/U, cover the inputs evenly: a start from which 3,200 steps of Adam
  // at 10⁻³ reach the fit. W₁ starts small, so that f starts as a contraction.
  const auto signs = uniform({hidden, 1}, -1, 1).sign();
  u_ = register_parameter("u", signs * uniform({hidden, 1}, 1.5, 3.0));
  const auto kinks = uniform({hidden}, options.x_min, options.x_max);
  b_ = register_parameter("b", -u_.detach().squeeze(1) * kinks);
  w1_ = register_parameter("w1", uniform({hidden, 1}, -0.5, 0.5));
  w2_ = register_parameter("w2", uniform({hidden, 1}, -0.2, 0.2));
}

State ToyCellImpl::initial_state(const Inputs& inputs) { return {torch::zeros_like(inputs.at(0))}; }

Context ToyCellImpl::prepare(const Inputs& inputs) {
  return {torch::addmm(b_, inputs.at(0), u_.t())};
}

State ToyCellImpl::step(const State& z, const Context& context) {
  return {torch::mm(torch::addmm(context[0], z[0], w1_.t()).relu_(), w2_)};
}

}  // namespace deq
