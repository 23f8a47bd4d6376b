#include "replay/check.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cmath>

#include "core/float32_rounding.h"
#include "core/require.h"

namespace deq {
namespace {

// Algorithms may differ between a recording and an evaluation, and with them the rounding. Half of
// the digits agree all the same; those of gradients, in which much cancels, a little less. What a
// layer takes from elsewhere changes the first digits.
constexpr double kBFloat16Rounding = 1.0 / (1 << 8), kHalfRounding = 1.0 / (1 << 11),
                 kTf32Rounding = 1.0 / (1 << 11), kFloatRounding = 1.0 / (1 << 24),
                 kDoubleRounding = 1.0 / (1LL << 53);
constexpr double kGradientFactor = 8, kMostTolerance = 0.25;

constexpr const char* kCause =
    "what it computes depends on something besides its arguments, its modules' tensors and the "
    "numbers of a replay_key()";

double rounding_of_float32_products(const torch::Device& device) {
  if (at::autocast::is_autocast_enabled(device.type())) {
    return at::autocast::get_autocast_dtype(device.type()) == torch::kHalf ? kHalfRounding
                                                                           : kBFloat16Rounding;
  }
  const auto allowed = tf32_allowed();
  const bool tf32 = device.is_cuda() && (allowed.products || allowed.convolutions);
  return tf32 ? kTf32Rounding : kFloatRounding;
}

}  // namespace

ReplayCheck::ReplayCheck(const torch::Device& device)
    : device_(device), float32_rounding_(rounding_of_float32_products(device)) {}

double ReplayCheck::rounding_of(const torch::Tensor& value) const {
  switch (value.scalar_type()) {
    case torch::kFloat64:
      return kDoubleRounding;
    case torch::kBFloat16:
      return kBFloat16Rounding;
    case torch::kHalf:
      return kHalfRounding;
    default:
      return float32_rounding_;
  }
}

void ReplayCheck::replay_and_evaluate(GraphWork& work, std::string_view what,
                                      const std::function<void()>& replay,
                                      const std::function<void()>& evaluate) const {
  const RandomState before(device_);
  replay();
  const RandomState after(device_);
  const Untouched untouched(device_, work.buffers());
  before.restore();
  {
    const c10::InferenceMode ordinary_tensors(false);
    const GradientEnds::Making making(work.ends());
    evaluate();
  }
  require(RandomState(device_) == after,
          "a replayed layer draws other random numbers than its evaluation in {}: {}", what,
          kCause);
}

void ReplayCheck::expect_within(double factor, std::string_view what, const torch::Tensor& replayed,
                                const torch::Tensor& evaluated) const {
  require(replayed.defined() == evaluated.defined(),
          "a replayed layer differs from its evaluation in {}, which one of them does not have: {}",
          what, kCause);
  if (!replayed.defined()) return;
  require(replayed.sizes() == evaluated.sizes(),
          "a replayed layer differs from its evaluation in the shape of {}: {}", what, kCause);
  const torch::NoGradGuard no_grad;
  const auto expected = evaluated.detach().to(torch::kFloat64);
  const double norm = expected.norm().item<double>();
  const double error = (replayed.detach().to(torch::kFloat64) - expected).norm().item<double>();
  // Where both are not finite, the solver will say so.
  const double tolerance = std::min(factor * std::sqrt(rounding_of(evaluated)), kMostTolerance);
  const bool same = error <= tolerance * norm || !std::isfinite(norm);
  require(same, "a replayed layer differs from its evaluation in {} by {:.2g}%: {}", what,
          100 * error / norm, kCause);
}

void ReplayCheck::expect_same(std::string_view what, const torch::Tensor& replayed,
                              const torch::Tensor& evaluated) const {
  expect_within(1, what, replayed, evaluated);
}

void ReplayCheck::expect_same(std::string_view what, const std::vector<torch::Tensor>& replayed,
                              const std::vector<torch::Tensor>& evaluated) const {
  for (size_t i = 0; i < evaluated.size(); ++i) {
    expect_within(1, fmt::format("{} {}", what, i), replayed.at(i), evaluated[i]);
  }
}

void ReplayCheck::expect_same_gradients(std::string_view what,
                                        const std::vector<torch::Tensor>& replayed,
                                        const std::vector<torch::Tensor>& evaluated) const {
  for (size_t i = 0; i < evaluated.size(); ++i) {
    require(replayed.at(i).defined() == evaluated[i].defined(),
            "a replayed layer differs from its evaluation in {}: one of them has none for input or "
            "parameter {}",
            what, i);
  }
  // Some are zero except for rounding, as that of a bias before a norm: what counts is all of them.
  const auto all = [](const std::vector<torch::Tensor>& tensors) {
    std::vector<torch::Tensor> flat;
    for (const auto& tensor : tensors) {
      if (tensor.defined()) flat.push_back(tensor.detach().flatten());
    }
    return flat.empty() ? torch::Tensor() : torch::cat(flat);
  };
  expect_within(kGradientFactor, what, all(replayed), all(evaluated));
}

}  // namespace deq
