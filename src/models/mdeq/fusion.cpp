#include "models/mdeq/fusion.h"

#include <fmt/format.h>

#include "kernels/images/upsample.h"
#include "models/mdeq/norm.h"

namespace deq::models {

torch::Tensor MdeqFusion::NormedConvolution::step(const torch::Tensor& x, MdeqPrepared& prepared,
                                                  const torch::Tensor& addend, bool relu) const {
  return normed(norm, conv->step(x, prepared), addend, relu);
}

MdeqFusion::MdeqFusion(torch::nn::Module& owner, const MdeqOptions& options, size_t scale,
                       const OptionalGenerator& generator)
    : scale_(scale),
      post_{.conv = MdeqConvolution(MdeqConvolutionOptions{.in = options.channels[scale],
                                                           .out = options.channels[scale],
                                                           .kernel = 1,
                                                           .weight_norm = options.weight_norm},
                                    generator),
            .norm = torch::nn::GroupNorm(
                torch::nn::GroupNormOptions(options.groups / 2, options.channels[scale])
                    .affine(options.post_norm_affine))} {
  const auto add = [&](Chain& chain, const MdeqConvolutionOptions& convolution,
                       const std::string& path) {
    chain.push_back(
        {.conv = MdeqConvolution(convolution, generator),
         .norm = torch::nn::GroupNorm(torch::nn::GroupNormOptions(options.groups, convolution.out)
                                          .affine(options.fuse_norm_affine))});
    register_at(owner, path + ".conv", chain.back().conv.ptr());
    register_at(owner, path + ".gnorm", chain.back().norm.ptr());
  };
  sources_.resize(options.scales());
  const auto to = options.channels[scale];
  for (size_t j = 0; j < options.scales(); ++j) {
    const auto path = fmt::format("fuse_layers.{}.{}.net", scale, j);
    const auto from = options.channels[j];
    if (j > scale) add(sources_[j], {.in = from, .out = to, .kernel = 1}, path);
    for (size_t k = 0; j + k < scale; ++k) {
      const bool last = j + k + 1 == scale;
      add(sources_[j], {.in = from, .out = last ? to : from, .stride = 2},
          fmt::format("{}.{}", path, k));
    }
  }
  register_at(owner, fmt::format("post_fuse_layers.{}.conv", scale), post_.conv.ptr());
  register_at(owner, fmt::format("post_fuse_layers.{}.gnorm", scale), post_.norm.ptr());
}

// In the order in which step() takes them: from the coarsest to the finest scale.
void MdeqFusion::prepare(Context& context) const {
  for (size_t j = sources_.size(); j-- > 0;) {
    for (const auto& layer : sources_[j]) layer.conv->prepare(context);
  }
  post_.conv->prepare(context);
}

torch::Tensor MdeqFusion::step(const State& x, MdeqPrepared& prepared, torch::ScalarType type,
                               const torch::Tensor& target) {
  const auto finish = [&](const torch::Tensor& fused) {
    return normed(post_.norm, post_.conv->step(fused, prepared), {}, /*relu=*/false, type, target);
  };
  // Repeating is linear: what comes from coarser scales is summed on the way up, at the lower
  // resolutions.
  torch::Tensor sum;
  for (size_t j = x.size() - 1; j > scale_; --j) {
    const auto term = sources_[j][0].step(x[j], prepared, sum);
    const bool arrived = j - 1 == scale_;
    sum = kernels::upsample_add(term, arrived ? x[scale_] : torch::Tensor(),
                                /*relu=*/arrived && scale_ == 0);
  }
  if (scale_ == 0) return finish(sum);
  if (!sum.defined()) sum = x[scale_];  // the coarsest
  for (size_t j = scale_; j-- > 0;) {
    auto term = x[j];
    const auto& chain = sources_[j];
    for (size_t k = 0; k + 1 < chain.size(); ++k) {
      term = chain[k].step(term, prepared, /*addend=*/{}, /*relu=*/true);
    }
    sum = chain.back().step(term, prepared, sum, /*relu=*/j == 0);
  }
  return finish(sum);
}

}  // namespace deq::models
