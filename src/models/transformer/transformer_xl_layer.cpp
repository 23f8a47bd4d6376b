#include "models/transformer/transformer_xl_layer.h"

#include <ATen/ops/dropout.h>

#include "models/linear.h"
#include "models/transformer/memory.h"

namespace deq::models {
namespace {

torch::nn::Linear linear_layer(int64_t in, int64_t out, bool bias, double spread,
                               const std::optional<at::Generator>& generator) {
  torch::nn::Linear layer(torch::nn::LinearOptions(in, out).bias(bias));
  const torch::NoGradGuard no_grad;
  layer->weight.normal_(0, spread, generator);
  if (bias) layer->bias.zero_();
  return layer;
}

torch::nn::LayerNorm layer_norm(int64_t width, double spread,
                                const std::optional<at::Generator>& generator) {
  torch::nn::LayerNorm layer(torch::nn::LayerNormOptions({width}));
  const torch::NoGradGuard no_grad;
  layer->weight.normal_(1, spread, generator);
  return layer;
}

}  // namespace

TransformerXlLayer::TransformerXlLayer(const TransformerXlOptions& options,
                                       const std::optional<at::Generator>& generator)
    : heads_(options.heads),
      d_head_(options.d_head),
      pre_ln_(options.pre_ln),
      dropout_(options.dropout),
      attention_dropout_(options.attention_dropout) {
  const auto width = heads_ * d_head_, d_model = options.d_model;
  const auto std = options.init_std;
  const auto attention =
      register_module("dec_attn", std::make_shared<torch::nn::Module>("dec_attn"));
  qkv_ = attention->register_module("qkv_net",
                                    linear_layer(d_model, 3 * width, false, std, generator));
  out_ = attention->register_module("o_net", linear_layer(width, d_model, false, std, generator));
  attention_norm_ = attention->register_module("layer_norm", layer_norm(d_model, std, generator));
  positions_ =
      attention->register_module("r_net", linear_layer(d_model, width, false, std, generator));
  const auto feed_forward =
      register_module("pos_ff", std::make_shared<torch::nn::Module>("pos_ff"));
  const auto core =
      feed_forward->register_module("CoreNet", std::make_shared<torch::nn::Module>("CoreNet"));
  inner_ = core->register_module("0", linear_layer(d_model, options.d_inner, true, std, generator));
  outer_ = core->register_module("3", linear_layer(options.d_inner, d_model, true, std, generator));
  feed_forward_norm_ =
      feed_forward->register_module("layer_norm", layer_norm(d_model, std, generator));
}

torch::Tensor TransformerXlLayer::dropped(const torch::Tensor& x) const {
  return at::dropout(x, dropout_, is_training());
}

torch::Tensor TransformerXlLayer::attended(const torch::Tensor& x, const torch::Tensor& memory,
                                           const torch::Tensor& distances,
                                           kernels::AttentionTerms& terms) {
  const auto batch = x.size(0), length = x.size(1), keys = distances.size(0);
  const auto whole = memory.defined() ? torch::cat({memory, x}, 1) : x;
  const auto qkv = linear(qkv_, pre_ln_ ? attention_norm_(whole) : whole)
                       .view({batch, keys, 3, heads_, d_head_});
  terms.positions = kernels::position_keys(linear(positions_, distances), heads_);
  if (is_training() && attention_dropout_ > 0) {
    terms.dropout = at::dropout(torch::ones({heads_ * batch, length, keys}, qkv.options()),
                                attention_dropout_, /*train=*/true);
  }
  const auto y = x + dropped(linear(out_, kernels::attend(qkv, length, terms)));
  return pre_ln_ ? y : attention_norm_(y);
}

torch::Tensor TransformerXlLayer::fed_forward(const torch::Tensor& x) {
  const auto inner = linear(inner_, pre_ln_ ? feed_forward_norm_(x) : x).relu();
  const auto y = x + dropped(linear(outer_, dropped(inner)));
  return pre_ln_ ? y : feed_forward_norm_(y);
}

torch::Tensor TransformerXlLayer::forward(const torch::Tensor& x, const torch::Tensor& memory,
                                          const torch::Tensor& distances,
                                          kernels::AttentionTerms terms) {
  return fed_forward(attended(x, memory, distances, terms));
}

kernels::AttentionTerms shared_terms(const torch::Tensor& content_bias,
                                     const torch::Tensor& position_bias, int64_t horizon,
                                     const AttentionSpan& span, torch::Device device) {
  kernels::AttentionTerms terms{};
  terms.content_bias = content_bias;
  terms.position_bias = position_bias;
  terms.horizon = horizon;
  terms.mask = kernels::attention_mask(span.length, span.keys, horizon, device);
  return terms;
}

TransformerXlLayers register_layers(torch::nn::Module& owner, const std::string& list,
                                    const TransformerXlOptions& options,
                                    const std::optional<at::Generator>& generator) {
  const auto parent = owner.register_module(list, std::make_shared<torch::nn::Module>(list));
  TransformerXlLayers layers;
  for (int64_t i = 0; i < options.layers; ++i) {
    layers.push_back(parent->register_module(
        std::to_string(i), std::make_shared<TransformerXlLayer>(options, generator)));
  }
  return layers;
}

torch::Tensor LayerMemory::past_of(const torch::Tensor& x) {
  const auto past = before_.layers.empty() ? torch::Tensor() : before_.layers[layer_];
  ++layer_;
  if (after_.capacity > 0) after_.layers.push_back(last_positions(past, x, after_.capacity));
  return before_.length() > 0 ? past : torch::Tensor();
}

torch::Tensor through_layers(const TransformerXlLayers& layers, torch::Tensor x,
                             const torch::Tensor& distances, const kernels::AttentionTerms& terms,
                             LayerMemory& memory) {
  for (const auto& layer : layers) x = layer->forward(x, memory.past_of(x), distances, terms);
  return x;
}

}  // namespace deq::models
