#include "models/transformer_feed_forward.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/layer_norm.h>

#include "models/transformer_context.h"
#include "models/transformer_parameters.h"

namespace deq {
namespace {

/// relu(x · mask) for x [B·q, n] and a mask [B, 1, n], or relu(x), in place of x. A mask is ≥ 0 and
/// could as well be applied after the ReLU, but then a tape would keep two tensors of the widest
/// layer, not one.
torch::Tensor activated(const torch::Tensor& x, const torch::Tensor& mask) {
  if (!mask.defined()) return x.relu_();
  const auto by_sample = x.view({mask.size(0), -1, mask.size(2)});
  const auto kept = torch::GradMode::is_enabled() ? by_sample * mask : by_sample.mul_(mask);
  return kept.relu_().view(x.sizes());
}

}  // namespace

TransformerFeedForward::TransformerFeedForward(const TransformerOptions& options,
                                               const std::optional<at::Generator>& generator)
    : pre_ln_(options.pre_ln),
      normalised_residual_(options.normalised_residual),
      inner_dropout_(register_module("drop1", VariationalDropout(options.dropout))),
      outer_dropout_(register_module("drop2", VariationalDropout(options.dropout))) {
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<TransformerLinear>(
                                     TransformerLinearOptions{.in = in,
                                                              .out = out,
                                                              .normalised = options.weight_norm,
                                                              .spread = layer_spread(options)},
                                     generator));
  };
  inner_ = linear("ff1_net", options.d_model, options.d_inner);
  outer_ = linear("ff2_net", options.d_inner, options.d_model);
}

void TransformerFeedForward::prepare(Context& context, int64_t batch,
                                     const torch::TensorOptions& numbers) const {
  context[kInnerMatrix] = inner_->matrix();
  context[kInnerBias] = inner_->bias_for(context[kInnerMatrix]);
  context[kInnerDropout] = inner_dropout_->mask({batch, 1, inner_->bias().size(0)}, numbers);
  context[kOuterMatrix] = outer_->matrix();
  context[kOuterBias] = outer_->bias_for(context[kOuterMatrix]);
  context[kOuterDropout] = outer_dropout_->mask({batch, 1, outer_->bias().size(0)}, numbers);
}

torch::Tensor TransformerFeedForward::step(const torch::Tensor& z, const Context& context) const {
  const auto width = z.size(-1);
  const auto x = pre_ln_ ? at::layer_norm(z, width) : z;
  const auto hidden =
      activated(at::addmm(context[kInnerBias], x.flatten(0, 1), context[kInnerMatrix]),
                context[kInnerDropout]);
  auto y = at::addmm(context[kOuterBias], hidden, context[kOuterMatrix]).view(z.sizes());
  if (context[kOuterDropout].defined()) y = y * context[kOuterDropout];
  y = y + (pre_ln_ && !normalised_residual_ ? z : x);
  return pre_ln_ ? y : at::layer_norm(y, width);
}

}  // namespace deq
