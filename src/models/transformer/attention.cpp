#include "models/transformer/attention.h"

#include <ATen/ops/layer_norm.h>

#include "kernels/attention/relative_attention.h"
#include "kernels/common/affine.h"
#include "kernels/common/tensor_cores.h"
#include "models/transformer/context.h"
#include "models/transformer/parameters.h"

namespace deq::models {
TransformerAttention::TransformerAttention(const TransformerOptions& options,
                                           const std::optional<at::Generator>& generator)
    : heads_(options.heads),
      d_head_(options.d_head),
      horizon_(options.horizon),
      pre_ln_(options.pre_ln),
      attention_dropout_(register_module("dropatt", VariationalDropout(options.attention_dropout))),
      dropout_(register_module("drop", VariationalDropout(options.dropout))) {
  const auto width = heads_ * d_head_;
  const auto linear = [&](const char* name, int64_t in, int64_t out, bool bias) {
    return register_module(name, std::make_shared<TransformerLinear>(
                                     TransformerLinearOptions{.in = in,
                                                              .out = out,
                                                              .bias = bias,
                                                              .pointwise_convolution = true,
                                                              .normalised = options.weight_norm,
                                                              .spread = layer_spread(options)},
                                     generator));
  };
  qkv_ = linear("qkv_net", options.d_model, 3 * width, false);
  positions_ = linear("r_net", options.d_model, width, false);
  content_bias_ = register_parameter(
      "r_w_bias", normal_numbers({heads_, d_head_}, options.init_std, generator));
  position_bias_ = register_parameter(
      "r_r_bias", normal_numbers({heads_, d_head_}, options.init_std, generator));
  out_ = linear("o_net", width, options.d_model, true);
}

torch::Tensor TransformerAttention::normalised(const torch::Tensor& x) const {
  return at::layer_norm(x, x.size(-1));
}

torch::Tensor TransformerAttention::memory_keys_values(const torch::Tensor& z,
                                                       const torch::Tensor& u,
                                                       const torch::Tensor& matrix) const {
  const auto batch = z.size(0), length = z.size(1);
  const auto x = kernels::factor_of((pre_ln_ ? normalised(z) : z).flatten(0, 1), matrix);
  // Nobody asks for a memory's queries.
  const auto queries = heads_ * d_head_, width = matrix.size(1) / 3;
  const auto added =
      u.defined() ? u.flatten(0, 1).narrow(1, queries, 2 * queries) : torch::Tensor();
  const auto kv =
      kernels::affine(x, matrix.narrow(1, width, 2 * width), injected(added, 2, matrix));
  return kv.view({batch, length, 2, heads_, width / heads_}).permute({2, 3, 0, 1, 4});
}

torch::Tensor TransformerAttention::past(const AttentionInputs& inputs, const torch::Tensor& matrix,
                                         int64_t hidden) const {
  const auto head = matrix.size(1) / (3 * heads_);
  if (inputs.distances.size(0) == inputs.length) {
    if (hidden == 0) return {};
    return torch::zeros({2, heads_, inputs.batch, hidden, head},
                        matrix.options().requires_grad(false));
  }
  const auto remembered = memory_keys_values(inputs.memory, inputs.memory_injection, matrix);
  return hidden == 0 ? remembered.contiguous()
                     : at::constant_pad_nd(remembered, {0, 0, hidden, 0}).contiguous();
}

torch::Tensor TransformerAttention::injected(const torch::Tensor& u, int64_t kinds,
                                             const torch::Tensor& matrix) const {
  if (!u.defined()) return {};
  return kernels::widened_groups(u.to(matrix.scalar_type()), kinds * heads_,
                                 matrix.size(1) / (3 * heads_));
}

void TransformerAttention::prepare(Context& context, const AttentionInputs& inputs) const {
  const auto batch = inputs.batch, length = inputs.length;
  const auto matrix = qkv_->matrix({.out = 3 * heads_});
  const auto seen = inputs.distances.size(0);
  const auto hidden =
      kernels::wants_aligned_rows(matrix) ? kernels::aligned_size(seen) - seen : int64_t{0};
  const auto keys = hidden + seen;
  const auto head = matrix.size(1) / (3 * heads_);
  // In the type of the weights, or autocast would convert it at every step.
  const auto type = matrix.scalar_type();
  if (inputs.injection.defined()) {
    context[kInjection] = injected(inputs.injection.flatten(0, 1), 3, matrix);
  }
  context[kMemory] = past(inputs, matrix, hidden);
  const auto projection = positions_->matrix({.out = heads_});
  const auto projected =
      kernels::affine(kernels::factor_of(inputs.distances, projection), projection);
  context[kPositions] = kernels::position_keys(projected, heads_, hidden);
  context[kMask] =
      kernels::attention_mask(length, keys, horizon_, inputs.distances.device(), hidden);
  context[kHidden] = torch::empty({hidden, 0}, matrix.options().requires_grad(false));
  context[kContentBias] = kernels::with_zeros(content_bias_.to(type), head, type);
  context[kPositionBias] = kernels::with_zeros(position_bias_.to(type), head, type);
  context[kAttentionDropout] =
      attention_dropout_->mask({heads_ * batch, length, keys}, inputs.numbers.dtype(type));
  context[kQkvMatrix] = matrix;
  context[kOutMatrix] = out_->matrix({.in = heads_});
  context[kOutBias] = out_->bias_for(context[kOutMatrix]);
  context[kOutDropout] = dropout_->mask({batch, 1, out_->bias().size(0)}, inputs.numbers);
}

torch::Tensor TransformerAttention::step(const torch::Tensor& z, const Context& context) const {
  const auto x = pre_ln_ ? normalised(z) : z;
  const auto& matrix = context[kQkvMatrix];
  const auto qkv =
      kernels::affine(kernels::factor_of(x.flatten(0, 1), matrix), matrix, context[kInjection])
          .view({z.size(0), z.size(1), 3, heads_, matrix.size(1) / (3 * heads_)});
  const auto seen = kernels::attend(qkv, z.size(1),
                                    {.content_bias = context[kContentBias],
                                     .position_bias = context[kPositionBias],
                                     .positions = context[kPositions],
                                     .past = context[kMemory],
                                     .dropout = context[kAttentionDropout],
                                     .horizon = horizon_,
                                     .hidden = context[kHidden].size(0),
                                     .d_head = d_head_,
                                     .mask = context[kMask]});
  const auto& out = context[kOutMatrix];
  auto y = kernels::affine(kernels::factor_of(seen.flatten(0, 1), out), out, context[kOutBias])
               .narrow(1, 0, z.size(2))
               .view(z.sizes());
  if (context[kOutDropout].defined()) y = y * context[kOutDropout];
  y = y + z;
  return pre_ln_ ? y : normalised(y);
}

}  // namespace deq::models
