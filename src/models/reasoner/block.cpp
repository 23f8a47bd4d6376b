#include "models/reasoner/block.h"

#include <cmath>

#include "kernels/common/affine.h"
#include "kernels/common/tensor_cores.h"
#include "kernels/feed_forward/swiglu.h"
#include "kernels/feed_forward/token_mixer.h"
#include "kernels/norms/sum_norm.h"

namespace deq::models {

using kernels::Between;
using kernels::Over;
using kernels::sum_norm;

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

SwiGlu::SwiGlu(int64_t width, const ReasonerOptions& options, const OptionalGenerator& generator) {
  const auto inner = inner_width(width, options);
  register_parameter("gate_up", matrix(2 * inner, width, generator));
  register_parameter("down", matrix(width, inner, generator));
}

RotaryAttention::RotaryAttention(const ReasonerOptions& options, const OptionalGenerator& generator)
    : heads_(options.heads) {
  register_parameter("qkv", matrix(3 * options.width, options.width, generator));
  register_parameter("out", matrix(options.width, options.width, generator));
  constexpr double kBase = 10'000;
  const auto pairs = options.width / options.heads / 2;
  const auto f64 = torch::TensorOptions(torch::kFloat64);
  const auto speeds = torch::pow(kBase, -torch::arange(pairs, f64) / static_cast<double>(pairs));
  const auto angles = torch::outer(torch::arange(options.tokens, f64), speeds).repeat({1, 2});
  cosines_ = register_buffer("cosines", angles.cos().to(torch::kFloat32));
  sines_ = register_buffer("sines", angles.sin().to(torch::kFloat32));
}

torch::Tensor RotaryAttention::forward(const torch::Tensor& x, Matrices matrices) const {
  const auto parts = kernels::linear(x, matrices[0])
                         .view({x.size(0), x.size(1), 3, heads_, -1})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
  const auto turned = [this](const torch::Tensor& part) {
    return (part * cosines_ + quarter_turned(part) * sines_).to(part.scalar_type());
  };
  const double scale = 1 / std::sqrt(static_cast<double>(parts[0].size(-1)));
  const auto scores = torch::matmul(turned(parts[0]) * scale, turned(parts[1]).transpose(-1, -2));
  const auto seen = torch::matmul(scores.softmax(-1).to(parts[2].scalar_type()), parts[2]);
  return kernels::linear(seen.transpose(1, 2).flatten(2), matrices[1]);
}

ReasonerLayer::ReasonerLayer(const ReasonerOptions& options, const OptionalGenerator& generator) {
  if (options.attention) {
    attention_ =
        register_module("attention", std::make_shared<RotaryAttention>(options, generator));
  } else {
    register_module("tokens", std::make_shared<SwiGlu>(options.tokens, options, generator));
  }
  register_module("features", std::make_shared<SwiGlu>(options.width, options, generator));
}

torch::Tensor ReasonerLayer::forward(torch::Tensor h, Matrices matrices, Between between) const {
  const auto mixing = matrices.first(SwiGlu::kMatrices);
  h = attention_ ? sum_norm(h, attention_->forward(h, mixing), Over::Features)
                 : kernels::mix_tokens(h, mixing[0], mixing[1]);
  const auto looking = matrices.subspan(SwiGlu::kMatrices);
  const auto seen = kernels::swiglu(h, looking[0], looking[1], Over::Features, between);
  return sum_norm(h, seen, Over::Features);
}

ReasonerBlock::ReasonerBlock(const ReasonerOptions& options, const OptionalGenerator& generator) {
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(register_module("layer" + std::to_string(i),
                                      std::make_shared<ReasonerLayer>(options, generator)));
  }
}

std::vector<torch::Tensor> ReasonerBlock::matrices(torch::ScalarType type) const {
  std::vector<torch::Tensor> all;
  for (const auto& own : parameters()) {
    // Zeros after each row have the next one begin where it should.
    const auto rows = kernels::aligned_matrix(own.to(type)).narrow(0, 0, own.size(0));
    all.push_back(rows.narrow(1, 0, own.size(1)));
  }
  return all;
}

torch::Tensor ReasonerBlock::forward(torch::Tensor h, Matrices matrices) const {
  for (size_t i = 0; i < layers_.size(); ++i) {
    const auto own = matrices.subspan(i * ReasonerLayer::kMatrices, ReasonerLayer::kMatrices);
    // On a GPU three quarters of what a tape keeps is between the products of the features. Every
    // other layer makes it again: 6% more arithmetic in a segment of three recursions.
    const bool again = h.is_cuda() && i % 2 == 0;
    h = layers_[i]->forward(std::move(h), own, again ? Between::MadeAgain : Between::Kept);
  }
  return h;
}

}  // namespace deq::models
