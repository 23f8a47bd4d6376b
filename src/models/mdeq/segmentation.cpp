#include "deq/models/mdeq/segmentation.h"

#include <torch/nn/modules/batchnorm.h>

#include <numeric>

#include "core/require.h"
#include "models/mdeq/layers.h"

// The head: with U the bilinear enlargement to the finest scale,
//   scores = conv ReLU BN conv₁ₓ₁ [z₀, U z₁, …, U zₙ],
// enlarged once more to the image. Corners stay corners, as in the authors' code.

namespace deq::models {
namespace {

torch::Tensor enlarged(const torch::Tensor& image, int64_t height, int64_t width) {
  if (image.size(2) == height && image.size(3) == width) return image;
  return torch::upsample_bilinear2d(image, {height, width}, /*align_corners=*/true);
}

/// The trunk's options. Those of a classifier's head are not used and get values that pass its
/// checks.
MdeqOptions trunk_options(const MdeqSegmenterOptions& options) {
  auto trunk = options.mdeq;
  trunk.head_channels.assign(trunk.scales(), 1);
  trunk.final_channels = 1;
  return trunk;
}

torch::nn::Sequential make_head(const MdeqSegmenterOptions& options,
                                const OptionalGenerator& generator) {
  const auto& channels = options.mdeq.channels;
  const auto width = std::accumulate(channels.begin(), channels.end(), int64_t{0});
  auto head = mdeq_conv_norm_relu(width, width, 1, 1, /*bias=*/true, generator);
  head->push_back(
      mdeq_conv2d(width, options.mdeq.classes, options.final_kernel, 1, /*bias=*/true, generator));
  return head;
}

}  // namespace

void validate(const MdeqSegmenterOptions& options) {
  validate(trunk_options(options));
  require(options.final_kernel == 1 || options.final_kernel == 3,
          "mdeq: final_kernel = {}, must be 1 or 3", options.final_kernel);
  require(options.norm_momentum > 0 && options.norm_momentum <= 1,
          "mdeq: norm_momentum = {:g}, must be in (0, 1]", options.norm_momentum);
}

// NOLINTBEGIN(performance-unnecessary-value-param): generators go by value, as in torch's API.
MdeqSegmenterImpl::MdeqSegmenterImpl(const MdeqSegmenterOptions& options,
                                     std::optional<at::Generator> generator)
    : MdeqTrunk((validate(options), trunk_options(options)), generator),
      head_(register_module("last_layer", make_head(options, generator))) {
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* norm = module->as<torch::nn::BatchNorm2d>()) {
      norm->options.momentum(options.norm_momentum);
    }
  }
}
// NOLINTEND(performance-unnecessary-value-param)

MdeqSegmentation MdeqSegmenterImpl::forward(const torch::Tensor& images,
                                            const EquilibriumPlan& plan) {
  const auto padded = with_border(images);
  auto equilibrium = equilibrate(inject(padded, plan.options().replay), plan);
  // Enlarged in the images' type: autocast would have rounded the scores between pixels, too.
  const auto scores =
      enlarged(segment(equilibrium.state).to(images.scalar_type()), padded.size(2), padded.size(3));
  return {.logits = scores.narrow(2, 0, images.size(2)).narrow(3, 0, images.size(3)),
          .equilibrium = std::move(equilibrium)};
}

torch::Tensor MdeqSegmenterImpl::segment(const State& z) {
  require_scales(z);
  std::vector<torch::Tensor> scales;
  scales.reserve(z.size());
  for (const auto& scale : z) scales.push_back(enlarged(scale, z[0].size(2), z[0].size(3)));
  return head_->forward(torch::cat(scales, 1));
}

torch::Tensor MdeqSegmenterImpl::with_border(const torch::Tensor& images) const {
  if (images.dim() != 4) return images;  // inject() says what is wrong
  const auto halvings = options().downsample_times + static_cast<int64_t>(options().scales()) - 1;
  const auto unit = int64_t{1} << halvings;
  const auto missing = [unit](int64_t side) { return (unit - side % unit) % unit; };
  const auto below = missing(images.size(2)), right = missing(images.size(3));
  return below + right == 0 ? images : torch::constant_pad_nd(images, {0, right, 0, below});
}

}  // namespace deq::models
