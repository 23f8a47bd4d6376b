#include "deq/models/mdeq.h"

#include "deq/core/error.h"
#include "models/mdeq_head.h"
#include "models/mdeq_stem.h"

namespace deq {

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
MdeqClassifierImpl::MdeqClassifierImpl(const MdeqOptions& options,
                                       std::optional<at::Generator> generator)
    : options_((validate(options), options)),
      stem_(register_module("downsample", mdeq_stem(options, generator))),
      cell_(options, generator),
      layer_(cell_) {
  // The finest models of at most two scales take the stem's output as it is.
  if (options.downsample_times > 0 || options.scales() > 2) {
    const auto channels = options.channels[0];
    stage0_ = register_module(
        "stage0", mdeq_conv_norm_relu(channels, channels, 1, 1, /*bias=*/false, generator));
  }
  register_module("fullstage", cell_);
  head_ = std::make_shared<MdeqHead>(*this, options, generator);
}
// NOLINTEND(performance-unnecessary-value-param)

MdeqOutput MdeqClassifierImpl::forward(const torch::Tensor& images, const EquilibriumPlan& plan) {
  auto equilibrium = equilibrate(inject(images), plan);
  auto logits = classify(equilibrium.state);
  return {.logits = std::move(logits), .equilibrium = std::move(equilibrium)};
}

torch::Tensor MdeqClassifierImpl::inject(const torch::Tensor& images) {
  require(images.dim() == 4 && images.size(1) == options_.image_channels, "mdeq: images of shape ",
          images.sizes(), ", must be [B, ", options_.image_channels, ", H, W]");
  const auto features = stem_->forward(images);
  const auto injection = stage0_.is_empty() ? features : stage0_->forward(features);
  // Autocast may have left another type; that of the injection becomes the state's.
  return injection.to(images.scalar_type());
}

Equilibrated MdeqClassifierImpl::equilibrate(const torch::Tensor& injection,
                                             const EquilibriumPlan& plan) {
  return layer_->forward({injection}, plan);
}

torch::Tensor MdeqClassifierImpl::classify(const State& z) {
  require(z.size() == options_.scales(), "mdeq: the state has ", z.size(), " tensors, expected ",
          options_.scales());
  const auto& coarsest = z.back();
  require(!is_training() || coarsest.numel() > coarsest.size(1),
          "mdeq: batch norm in train mode needs more than one value a channel, and the coarsest "
          "scale is ",
          coarsest.sizes());
  return head_->forward(z);
}

}  // namespace deq
