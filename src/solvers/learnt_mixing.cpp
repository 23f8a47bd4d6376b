#include "deq/solvers/learnt_mixing.h"

#include <cmath>

#include "core/autocast.h"
#include "core/require.h"

// Learnt Anderson mixing, after HyperDEQ (Bai, Koltun, Kolter 2022). With a sample's last n ≤ m
// residuals gᵢ, the newest first, and their least-squares weights α:
//
//   x = (gᵢ·gⱼ / ‖gᵢ‖‖gⱼ‖ for i > j,  ln ‖gᵢ‖/‖g₀‖,  αᵢ / (1 + |αᵢ|),  [i < n],  1 / step)
//   (c, b) = tanh(W₂ tanh(W₁ x + b₁) + b₂),        c̄ = Σ cᵢ / n  over i < n
//   αᵢ ← αᵢ + cᵢ − c̄,     β ← β (1 + b)
//
// What is beyond the history is 0 in x and in α, and so are angles and lengths of a residual that
// is 0. W₂ = 0 and b₂ = 0 at first. x does not change when all residuals grow alike or the state
// is turned.

namespace deq {
namespace {

int64_t feature_count(int64_t m) {
  return m * (m - 1) / 2 + 3 * m;
}

/// A residual counts as 0 where it is shorter than this times the longest of its history: gradients
/// grow as its inverse, and would not fit into a float32.
constexpr double kNoLength = 1e-30;

torch::Tensor features(const MixingHistory& history, const torch::Tensor& known) {
  const auto& gram = history.gram;
  const int64_t m = gram.size(1);
  // A residual of 0 has no direction. What it has in x is 0, and is never divided by: a gradient
  // that is left out afterwards would be 0 · ∞.
  const auto squares = gram.diagonal(0, 1, 2) * known;
  const auto longest = squares.amax(1, /*keepdim=*/true);
  const auto counts = squares > kNoLength * kNoLength * longest;
  const auto lengths = torch::where(counts, squares, torch::ones_like(squares)).sqrt();
  const auto both = counts.unsqueeze(1) & counts.unsqueeze(2);
  const auto pairs = torch::tril_indices(m, m, -1, gram.options().dtype(torch::kLong));
  const auto cosines = (gram * both / (lengths.unsqueeze(1) * lengths.unsqueeze(2)))
                           .index({torch::indexing::Slice(), pairs[0], pairs[1]});
  const auto ratios = (lengths / lengths.narrow(1, 0, 1)).log() * (counts & counts.narrow(1, 0, 1));
  const auto squashed = history.alpha / (1 + history.alpha.abs());
  const auto age =
      torch::full({gram.size(0), 1}, 1.0 / static_cast<double>(history.step), gram.options());
  return torch::cat({cosines, ratios.narrow(1, 1, m - 1), squashed, known.to(gram.dtype()), age},
                    1);
}

}  // namespace

void validate(const LearntMixingOptions& options) {
  require(options.memory >= 1, "learnt mixing: memory = {}, must be ≥ 1", options.memory);
  require(options.hidden >= 1, "learnt mixing: hidden = {}, must be ≥ 1", options.hidden);
}

LearntMixingImpl::LearntMixingImpl(const LearntMixingOptions& options,
                                   const std::optional<at::Generator>& generator)
    : options_((validate(options), options)),
      hidden_(register_module("features",
                              torch::nn::Linear(feature_count(options.memory), options.hidden))),
      correction_(
          register_module("correction", torch::nn::Linear(options.hidden, options.memory + 1))) {
  const torch::NoGradGuard no_grad;
  const double bound = 1 / std::sqrt(static_cast<double>(feature_count(options.memory)));
  for (auto& parameter : hidden_->parameters()) parameter.uniform_(-bound, bound, generator);
  for (auto& parameter : correction_->parameters()) parameter.zero_();
}

MixingWeights LearntMixingImpl::weights(const MixingHistory& history) {
  const int64_t m = options_.memory;
  const auto length = history.length.unsqueeze(1);
  const auto known = torch::arange(m, length.options()) < length;
  const auto& weight = hidden_->weight;
  const NoAutocast exact(weight.device());
  const auto x = features(history, known).to(weight.options());
  const auto predicted =
      torch::tanh(correction_(torch::tanh(hidden_(x)))).to(history.alpha.options());
  const auto c = predicted.narrow(1, 0, m) * known;
  const auto centred = (c - c.sum(1, /*keepdim=*/true) / length) * known;
  return {history.alpha + centred, history.beta * (1 + predicted.select(1, m))};
}

}  // namespace deq
