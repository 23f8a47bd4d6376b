#include "models/transformer/gpt2_layer.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>
#include <string>

#include "models/linear.h"
#include "models/transformer/gpt2_cuts.h"
#include "models/transformer/parameters.h"

namespace deq::models {
namespace {

/// Every process draws the whole weight and keeps its part.
torch::nn::Linear part_of_linear(const std::string& name, int64_t in, int64_t out, double spread,
                                 const std::optional<at::Generator>& generator,
                                 const TensorPart& part) {
  const auto weight = normal_numbers({out, in}, spread, generator);
  const auto own = own_part(weight, gpt2_cut(name + ".weight"), part);
  const auto bias = own_part(torch::zeros({out}), gpt2_cut(name + ".bias"), part);
  torch::nn::Linear layer(torch::nn::LinearOptions(own.size(1), own.size(0)));
  layer->weight.set_data(own);
  layer->bias.set_data(bias);
  return layer;
}

torch::nn::LayerNorm norm_of(int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

Gpt2Layer::Gpt2Layer(const Gpt2Options& options, const std::optional<at::Generator>& generator,
                     TensorGroup group)
    : d_head_(options.head_width()),
      dropout_(options.dropout),
      attention_dropout_(options.attention_dropout),
      group_(std::move(group)) {
  const auto d = options.d_model, inner = options.d_inner;
  const auto std = options.init_std;
  const auto added_std = std / std::sqrt(2.0 * static_cast<double>(options.layers));
  const auto linear = [&](const std::string& name, int64_t in, int64_t out, double spread) {
    return register_module(name,
                           part_of_linear(name, in, out, spread, generator, part_of(group_.get())));
  };
  attention_norm_ = register_module("attention_norm", norm_of(d));
  qkv_ = linear("qkv", d, 3 * d, std);
  attention_out_ = linear("attention_out", d, d, added_std);
  feed_forward_norm_ = register_module("feed_forward_norm", norm_of(d));
  inner_ = linear("inner", d, inner, std);
  outer_ = linear("outer", inner, d, added_std);
}

torch::Tensor Gpt2Layer::added(const torch::Tensor& features, torch::nn::Linear& out) const {
  const auto sum = sum_of_parts(kernels::linear(features, out->weight), group_) + out->bias;
  return at::dropout(sum, dropout_, is_training());
}

torch::Tensor Gpt2Layer::attended(const torch::Tensor& x, std::optional<uint64_t> key) {
  const auto batch = x.size(0), length = x.size(1);
  const auto qkv = linear(qkv_, to_parts(attention_norm_(x), group_))
                       .view({batch, length, 3, -1, d_head_})
                       .permute({2, 0, 3, 1, 4});
  std::optional<PartsNoise> noise;
  if (key) noise.emplace(x.device(), *key, *group_);
  const auto seen = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {},
                                                     is_training() ? attention_dropout_ : 0.0,
                                                     /*is_causal=*/true);
  noise.reset();
  return x + added(seen.transpose(1, 2).reshape({batch, length, -1}), attention_out_);
}

torch::Tensor Gpt2Layer::fed_forward(const torch::Tensor& x) {
  const auto inner = linear(inner_, to_parts(feed_forward_norm_(x), group_));
  return x + added(at::gelu(inner, "tanh"), outer_);
}

torch::Tensor Gpt2Layer::forward(const torch::Tensor& x, std::optional<uint64_t> key) {
  return fed_forward(attended(x, key));
}

}  // namespace deq::models
