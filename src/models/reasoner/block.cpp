#include "models/reasoner/block.h"

#include <cmath>

namespace deq::models {
namespace {

torch::Tensor matrix(int64_t out, int64_t in, const OptionalGenerator& generator) {
  return truncated_normal({out, in}, 1 / std::sqrt(static_cast<double>(in)), generator);
}

/// Two thirds of the expansion, since there are two matrices on the way in.
int64_t inner_width(int64_t width, const ReasonerOptions& options) {
  const auto third = 3 * options.inner_multiple;
  return (2 * options.expansion * width + third - 1) / third * options.inner_multiple;
}

/// Pairs (first half, second half) of the last dimension as complex numbers, turned by a quarter.
torch::Tensor quarter_turned(const torch::Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return torch::cat({-halves[1], halves[0]}, -1);
}

}  // namespace

torch::Tensor rms_norm(const torch::Tensor& x, int64_t dim) {
  constexpr double kEps = 1e-5;
  return x * torch::rsqrt(x.square().mean(dim, /*keepdim=*/true) + kEps);
}

SwiGlu::SwiGlu(int64_t width, const ReasonerOptions& options, const OptionalGenerator& generator)
    : gate_up_(
          register_parameter("gate_up", matrix(2 * inner_width(width, options), width, generator))),
      down_(register_parameter("down", matrix(width, inner_width(width, options), generator))) {}

torch::Tensor SwiGlu::over_features(const torch::Tensor& x) const {
  const auto halves = torch::linear(x, gate_up_).chunk(2, -1);
  return torch::linear(torch::silu(halves[0]) * halves[1], down_);
}

torch::Tensor SwiGlu::over_tokens(const torch::Tensor& x) const {
  const auto halves = torch::matmul(gate_up_, x).chunk(2, -2);
  return torch::matmul(down_, torch::silu(halves[0]) * halves[1]);
}

RotaryAttention::RotaryAttention(const ReasonerOptions& options, const OptionalGenerator& generator)
    : heads_(options.heads),
      qkv_(register_parameter("qkv", matrix(3 * options.width, options.width, generator))),
      out_(register_parameter("out", matrix(options.width, options.width, generator))) {
  constexpr double kBase = 10'000;
  const auto pairs = options.width / options.heads / 2;
  const auto f64 = torch::TensorOptions(torch::kFloat64);
  const auto speeds = torch::pow(kBase, -torch::arange(pairs, f64) / static_cast<double>(pairs));
  const auto angles = torch::outer(torch::arange(options.tokens, f64), speeds).repeat({1, 2});
  cosines_ = register_buffer("cosines", angles.cos().to(torch::kFloat32));
  sines_ = register_buffer("sines", angles.sin().to(torch::kFloat32));
}

torch::Tensor RotaryAttention::forward(const torch::Tensor& x) const {
  const auto parts = torch::linear(x, qkv_)
                         .view({x.size(0), x.size(1), 3, heads_, -1})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
  const auto turned = [this](const torch::Tensor& part) {
    return (part * cosines_ + quarter_turned(part) * sines_).to(part.scalar_type());
  };
  const double scale = 1 / std::sqrt(static_cast<double>(parts[0].size(-1)));
  const auto scores = torch::matmul(turned(parts[0]) * scale, turned(parts[1]).transpose(-1, -2));
  const auto seen = torch::matmul(scores.softmax(-1).to(parts[2].scalar_type()), parts[2]);
  return torch::linear(seen.transpose(1, 2).flatten(2), out_);
}

ReasonerLayer::ReasonerLayer(const ReasonerOptions& options, const OptionalGenerator& generator) {
  if (options.attention) {
    attention_ =
        register_module("attention", std::make_shared<RotaryAttention>(options, generator));
  } else {
    tokens_ =
        register_module("tokens", std::make_shared<SwiGlu>(options.tokens, options, generator));
  }
  features_ =
      register_module("features", std::make_shared<SwiGlu>(options.width, options, generator));
}

torch::Tensor ReasonerLayer::forward(torch::Tensor h) const {
  h = attention_ ? rms_norm(h + attention_->forward(h), -1)
                 : rms_norm(h + tokens_->over_tokens(h), -2);
  return rms_norm(h + features_->over_features(h), -1);
}

ReasonerBlock::ReasonerBlock(const ReasonerOptions& options, const OptionalGenerator& generator) {
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(register_module("layer" + std::to_string(i),
                                      std::make_shared<ReasonerLayer>(options, generator)));
  }
}

torch::Tensor ReasonerBlock::forward(torch::Tensor h) const {
  for (const auto& layer : layers_) h = layer->forward(h);
  return h;
}

}  // namespace deq::models
