#include "models/mdeq/block.h"

#include "kernels/images/mask_images.h"
#include "kernels/images/residual_branch.h"
#include "models/mdeq/norm.h"

namespace deq::models {
namespace {

MdeqConvolution convolution(const MdeqOptions& options, size_t scale, int64_t number,
                            const OptionalGenerator& generator) {
  const auto outer = options.channels[scale];
  const auto inner = outer * options.expansion;
  const auto big = options.big_kernels.empty() ? 0 : options.big_kernels[scale];
  return MdeqConvolution(MdeqConvolutionOptions{.in = number == 0 ? outer : inner,
                                                .out = number == 0 ? inner : outer,
                                                .kernel = number < big ? 5 : 3,
                                                .weight_norm = options.weight_norm},
                         generator);
}

torch::nn::GroupNorm norm(const MdeqOptions& options, int64_t channels) {
  return torch::nn::GroupNorm(
      torch::nn::GroupNormOptions(options.groups, channels).affine(options.block_norm_affine));
}

}  // namespace

MdeqBlockImpl::MdeqBlockImpl(const MdeqOptions& options, size_t scale,
                             const OptionalGenerator& generator)
    : channels_(options.channels[scale]),
      conv1_(register_module("conv1", convolution(options, scale, 0, generator))),
      conv2_(register_module("conv2", convolution(options, scale, 1, generator))),
      gn1_(register_module("gn1", norm(options, channels_ * options.expansion))),
      gn2_(register_module("gn2", norm(options, channels_))),
      gn3_(register_module("gn3", norm(options, channels_))),
      drop_(register_module("drop", VariationalDropout(options.dropout))) {}

void MdeqBlockImpl::prepare(Context& context, int64_t batch,
                            const torch::TensorOptions& options) const {
  conv1_->prepare(context);
  conv2_->prepare(context);
  context.push_back(drop_->mask({batch, channels_, 1, 1}, options));
}

torch::Tensor MdeqBlockImpl::step(const torch::Tensor& x, const torch::Tensor& injection,
                                  MdeqPrepared& prepared, bool zeros) {
  const auto &first = prepared.next(), &second = prepared.next();
  auto y =
      kernels::residual_branch(zeros ? x.narrow(0, 0, 1) : x, {.first = first,
                                                               .norm_weight = gn1_->weight,
                                                               .norm_bias = gn1_->bias,
                                                               .groups = gn1_->options.num_groups(),
                                                               .eps = gn1_->options.eps(),
                                                               .second = second});
  if (zeros) y = y.expand_as(x);
  // In place: a convolution's backward reads its input, not its output.
  const auto& mask = prepared.next();
  if (mask.defined() && (zeros || y.is_cuda() || injection.defined())) {
    y = kernels::mask_images(y, mask, injection);
  } else if (mask.defined()) {
    y.mul_(mask);
  } else if (injection.defined()) {
    y = zeros ? y + injection : y.add_(injection);
  }
  return normed(gn3_, normed_relu(gn2_, y, zeros ? torch::Tensor() : x));
}

}  // namespace deq::models
