#include "deq/models/reasoner/reasoner.h"

#include <cmath>
#include <utility>
#include <vector>

#include "core/require.h"
#include "kernels/common/affine.h"
#include "models/reasoner/parameters.h"

namespace deq::models {
namespace {

// At first a reasoner thinks that no answer is right.
constexpr double kFirstBias = -5;

double root_of(int64_t width) {
  return std::sqrt(static_cast<double>(width));
}

}  // namespace

ReasonerImpl::ReasonerImpl(const ReasonerOptions& options,
                           const std::optional<at::Generator>& generator)
    : options_((validate(options), options)),
      embedding_(
          register_parameter("embedding", truncated_normal({options.vocabulary, options.width},
                                                           1 / root_of(options.width), generator))),
      cell_(register_module("cell", ReasonerCell(options, generator))),
      layer_(cell_),
      head_(register_parameter("head", truncated_normal({options.vocabulary, options.width},
                                                        1 / root_of(options.width), generator))),
      settled_(register_module("settled", torch::nn::Linear(options.width, 1))) {
  const torch::NoGradGuard no_grad;
  settled_->weight.zero_();
  settled_->bias.fill_(kFirstBias);
  if (options.start == ReasonerStart::Fixed) {
    first_answer_ =
        register_buffer("first_answer", truncated_normal({options.width}, 1, generator));
    first_thought_ =
        register_buffer("first_thought", truncated_normal({options.width}, 1, generator));
  }
}

ReasonerOutput ReasonerImpl::forward(const torch::Tensor& tokens, const State& start,
                                     const EquilibriumPlan& plan, const Callback& callback) {
  auto equilibrium =
      layer_->forward({embed(tokens)}, {.start = start, .plan = &plan, .callback = callback});
  const auto& answer = equilibrium.state[0];
  auto logits = read(answer);
  auto settled = settled_(answer.select(1, 0)).squeeze(1);
  return {.logits = std::move(logits),
          .settled = std::move(settled),
          .equilibrium = std::move(equilibrium)};
}

State ReasonerImpl::start_of(const torch::Tensor& tokens,
                             const std::optional<at::Generator>& generator) {
  const std::vector<int64_t> shape{tokens.size(0), options_.tokens, options_.width};
  if (options_.start == ReasonerStart::Fixed) {
    return {first_answer_.expand(shape).contiguous(), first_thought_.expand(shape).contiguous()};
  }
  const auto numbers = embedding_.options().requires_grad(false);
  // A generator of the host's serves every device.
  const auto drawn = [&] {
    return generator ? truncated_normal(shape, 1, generator, numbers.device(torch::kCPU))
                           .to(numbers.device())
                     : truncated_normal(shape, 1, generator, numbers);
  };
  auto answer = drawn();
  return {std::move(answer), drawn()};
}

torch::Tensor ReasonerImpl::embed(const torch::Tensor& tokens) {
  require(tokens.dim() == 2 && tokens.size(1) == options_.tokens &&
              tokens.scalar_type() == torch::kInt64,
          "reasoner: puzzles of shape {}, must be whole numbers [B, {}]", tokens.sizes(),
          options_.tokens);
  return torch::embedding(embedding_, tokens) * root_of(options_.width);
}

torch::Tensor ReasonerImpl::read(const torch::Tensor& answer) const {
  return kernels::linear(answer, head_);
}

}  // namespace deq::models
