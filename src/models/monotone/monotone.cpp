#include "deq/models/monotone/monotone.h"

#include <utility>

#include "core/require.h"
#include "models/explicit/explicit_layers.h"
#include "models/mdeq/layers.h"

namespace deq::models {
namespace {

constexpr int64_t kPool = 4;

int64_t features(const MonotoneOptions& options) {
  const auto last = options.tiers() - 1;
  const auto side = last == 0 ? options.tier_size(0) / kPool : options.tier_size(last);
  return options.channels[last] * side * side;
}

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): generators go by value, as in torch's API.
MonotoneClassifierImpl::MonotoneClassifierImpl(const MonotoneOptions& options,
                                               std::optional<at::Generator> generator)
    : options_((validate(options), options)),
      cell_(options, generator),
      layer_(cell_),
      head_(register_module("Wout", torch::nn::Linear(features(options), options.classes))) {
  register_at(*this, "mon.linear_module", cell_.ptr());
  models::draw_linear(head_, generator);
}

MonotoneOutput MonotoneClassifierImpl::forward(const torch::Tensor& images,
                                               const EquilibriumPlan& plan, const State& start) {
  auto equilibrium = equilibrate(inject(images), plan, start);
  auto z = cell_->equilibrium(equilibrium.state);
  auto logits = classify(z);
  return {.logits = std::move(logits), .z = std::move(z), .equilibrium = std::move(equilibrium)};
}

torch::Tensor MonotoneClassifierImpl::inject(const torch::Tensor& images) {
  const auto size = options_.image_size;
  require(images.dim() == 4 && images.size(1) == options_.image_channels &&
              images.size(2) == size && images.size(3) == size,
          "monotone: images of shape {}, must be [B, {}, {}, {}], as image_size = {} says",
          images.sizes(), options_.image_channels, size, size, size);
  return torch::constant_pad_nd(images, {1, 1, 1, 1});
}

Equilibrated MonotoneClassifierImpl::equilibrate(const torch::Tensor& injection,
                                                 const EquilibriumPlan& plan, const State& start) {
  return layer_->forward({injection}, {.start = start, .plan = &plan});
}

torch::Tensor MonotoneClassifierImpl::classify(const State& z) {
  require(z.size() == options_.tiers(), "monotone: the state has {} tensors, expected {}", z.size(),
          options_.tiers());
  const auto features = z.size() == 1 ? torch::avg_pool2d(z[0], kPool) : z.back();
  return head_->forward(features.flatten(1));
}

}  // namespace deq::models
