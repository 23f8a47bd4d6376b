#include "deq/models/mdeq/trunk.h"

#include "core/require.h"
#include "models/mdeq/layers.h"
#include "models/mdeq/stem.h"
#include "replay/replayed_function.h"

namespace deq::models {

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
MdeqTrunk::MdeqTrunk(const MdeqOptions& options, std::optional<at::Generator> generator)
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
  std::vector<std::shared_ptr<torch::nn::Module>> modules{stem_.ptr()};
  if (!stage0_.is_empty()) modules.push_back(stage0_.ptr());
  replayed_stem_ = std::make_shared<ReplayedFunction>(
      modules, [this](const auto& images) { return stem(images[0]); });
}
// NOLINTEND(performance-unnecessary-value-param)

torch::Tensor MdeqTrunk::inject(const torch::Tensor& images, Replay replay) {
  require(images.dim() == 4 && images.size(1) == options_.image_channels,
          "mdeq: images of shape {}, must be [B, {}, H, W]", images.sizes(),
          options_.image_channels);
  return (*replayed_stem_)({images}, replay);
}

torch::Tensor MdeqTrunk::stem(const torch::Tensor& images) {
  const auto features = stem_->forward(images.contiguous(kMdeqOrder));
  const auto injection = stage0_.is_empty() ? features : stage0_->forward(features);
  // Autocast may have left another type; that of the injection becomes the state's.
  return injection.to(images.scalar_type());
}

Equilibrated MdeqTrunk::equilibrate(const torch::Tensor& injection, const EquilibriumPlan& plan,
                                    const State& start) {
  return layer_->forward({injection}, {.start = start, .plan = &plan});
}

void MdeqTrunk::require_scales(const State& z) const {
  require(z.size() == options_.scales(), "mdeq: the state has {} tensors, expected {}", z.size(),
          options_.scales());
}

}  // namespace deq::models
