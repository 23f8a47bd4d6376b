#include "models/transformer/feed_forward.h"

#include <ATen/ops/layer_norm.h>

#include "kernels/common/tensor_cores.h"
#include "kernels/feed_forward/feed_forward.h"
#include "models/transformer/context.h"
#include "models/transformer/parameters.h"

namespace deq::models {

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
  // As wide as what it multiplies, and in its type.
  const auto& inner = context[kInnerMatrix];
  context[kInnerDropout] =
      inner_dropout_->mask({batch, 1, inner.size(1)}, numbers.dtype(inner.scalar_type()));
  context[kOuterMatrix] = outer_->matrix();
  context[kOuterBias] = outer_->bias_for(context[kOuterMatrix]);
  context[kOuterDropout] = outer_dropout_->mask({batch, 1, outer_->bias().size(0)}, numbers);
}

torch::Tensor TransformerFeedForward::step(const torch::Tensor& z, const Context& context) const {
  const auto width = z.size(-1);
  const auto x = pre_ln_ ? at::layer_norm(z, width) : z;
  auto y = kernels::feed_forward(kernels::factor_of(x, context[kInnerMatrix]),
                                 {.inner = context[kInnerMatrix],
                                  .inner_bias = context[kInnerBias],
                                  .outer = context[kOuterMatrix],
                                  .outer_bias = context[kOuterBias]},
                                 context[kInnerDropout])
               .narrow(2, 0, width);
  if (context[kOuterDropout].defined()) y = y * context[kOuterDropout];
  y = y + (pre_ln_ && !normalised_residual_ ? z : x);
  return pre_ln_ ? y : at::layer_norm(y, width);
}

}  // namespace deq::models
