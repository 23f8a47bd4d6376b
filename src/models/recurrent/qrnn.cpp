#include "deq/models/recurrent/qrnn.h"

#include <ATen/ops/embedding.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/require.h"
#include "models/recurrent/qrnn_layer.h"
#include "models/recurrent/qrnn_vocabulary.h"
#include "models/transformer/memory.h"

namespace deq::models {
namespace {

/// One mask of features for all positions of a stream.
torch::Tensor with_features_dropped(const torch::Tensor& x, const VariationalDropout& dropout) {
  const auto mask = dropout->mask({x.size(0), 1, x.size(2)}, x.options());
  return mask.defined() ? x * mask : x;
}

/// With the digits that sums need.
torch::Tensor widened(const torch::Tensor& x) {
  return x.element_size() < 4 ? x.to(torch::kFloat32) : x;
}

}  // namespace

std::vector<torch::Tensor> QrnnMemory::tensors() const {
  auto all = states;
  if (inputs.defined()) all.push_back(inputs);
  return all;
}

QrnnMemory QrnnMemory::of(const std::vector<torch::Tensor>& tensors, int64_t layers) {
  if (tensors.size() != static_cast<size_t>(layers) + 1) return {.states = tensors};
  return {.states = {tensors.begin(), tensors.end() - 1}, .inputs = tensors.back()};
}

AwdQrnnImpl::AwdQrnnImpl(const QrnnOptions& options, const std::optional<at::Generator>& generator)
    : options_((validate(options), options)) {
  embedding_ =
      register_module("word_emb", AdaptiveEmbedding(adaptive_vocabulary(options), generator));
  const auto list = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  for (int64_t i = 0; i < options.layers; ++i) {
    const QrnnLayerSizes sizes{.in = i == 0 ? options.d_embed : options.d_hidden,
                               .out = i == options.layers - 1 ? options.d_embed : options.d_hidden,
                               .window = i == 0 ? options.window : 1};
    layers_.push_back(list->register_module(
        std::to_string(i), std::make_shared<QrnnLayer>(sizes, options.weight_dropout, generator)));
  }
  const AdaptiveTies ties{.weights = options.tie_weights, .projections = options.tie_projections};
  softmax_ = register_module("crit", AdaptiveSoftmax(embedding_, ties, generator));
  const auto dropout = [this](const std::string& name, double rate) {
    return register_module(name, VariationalDropout(rate));
  };
  embedding_dropout_ = dropout("embedding_dropout", options.embedding_dropout);
  input_dropout_ = dropout("input_dropout", options.input_dropout);
  hidden_dropout_ = dropout("hidden_dropout", options.hidden_dropout);
  output_dropout_ = dropout("output_dropout", options.output_dropout);
}

void AwdQrnnImpl::check(const torch::Tensor& tokens, const QrnnMemory& memory) const {
  check_tokens("awd-qrnn", tokens);
  if (memory.empty()) return;
  require(memory.states.size() == layers_.size(),
          "awd-qrnn: a memory of {} layers, must have {} or none", memory.states.size(),
          layers_.size());
  const auto must_be = [](const torch::Tensor& tensor, const std::vector<int64_t>& shape) {
    const auto found = tensor.defined() ? tensor.sizes().vec() : std::vector<int64_t>{};
    require(found == shape, "awd-qrnn: a memory of shape {}, must be {}", found, shape);
  };
  const auto batch = tokens.size(0);
  for (size_t i = 0; i < layers_.size(); ++i) {
    must_be(memory.states[i], {batch, layers_[i]->sizes().out});
  }
  if (options_.window > 1) must_be(memory.inputs, {batch, options_.window - 1, options_.d_embed});
}

torch::Tensor AwdQrnnImpl::embedded(const torch::Tensor& tokens) {
  auto x = embedding_(tokens);
  const auto mask = embedding_dropout_->mask({options_.vocabulary, 1}, x.options());
  if (mask.defined()) x = x * at::embedding(mask, tokens);
  return with_features_dropped(x, input_dropout_);
}

QrnnReading AwdQrnnImpl::through_layers(const torch::Tensor& tokens, const QrnnMemory& memory) {
  check(tokens, memory);
  auto x = embedded(tokens);
  QrnnMemory after;
  if (const auto before = options_.window - 1; before > 0) {
    const auto past = memory.empty() ? torch::zeros({x.size(0), before, x.size(2)}, x.options())
                                     : memory.inputs.to(x.scalar_type());
    x = torch::cat({past, x}, 1);
    after.inputs = last_positions({}, x, before);
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) x = with_features_dropped(x, hidden_dropout_);
    const auto [h, c] = layers_[i]->forward(x, memory.empty() ? torch::Tensor() : memory.states[i]);
    x = h;
    after.states.push_back(c.detach());
  }
  return {.hidden = x, .memory = std::move(after)};
}

torch::Tensor AwdQrnnImpl::penalty(const torch::Tensor& dropped,
                                   const torch::Tensor& output) const {
  torch::Tensor sum;
  if (!is_training()) return sum;
  if (options_.activation_penalty > 0) {
    sum = options_.activation_penalty * widened(dropped).square().mean();
  }
  if (options_.slowness_penalty > 0 && output.size(1) > 1) {
    const auto slowness = options_.slowness_penalty * widened(output).diff(1, 1).square().mean();
    sum = sum.defined() ? sum + slowness : slowness;
  }
  return sum;
}

QrnnReading AwdQrnnImpl::read(const torch::Tensor& tokens, const QrnnMemory& memory) {
  auto reading = through_layers(tokens, memory);
  reading.hidden = with_features_dropped(reading.hidden, output_dropout_);
  return reading;
}

QrnnOutput AwdQrnnImpl::forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                                const QrnnMemory& memory) {
  require(tokens.sizes() == targets.sizes(),
          "awd-qrnn: targets of shape {} for tokens of shape {}, must be the same", targets.sizes(),
          tokens.sizes());
  auto reading = through_layers(tokens, memory);
  const auto output = reading.hidden;
  reading.hidden = with_features_dropped(output, output_dropout_);
  auto nll = softmax_(reading.hidden, targets);
  auto added = penalty(reading.hidden, output);
  return {.nll = std::move(nll), .penalty = std::move(added), .reading = std::move(reading)};
}

torch::Tensor AwdQrnnImpl::log_probabilities(const torch::Tensor& hidden) {
  return softmax_->log_probabilities(hidden);
}

std::vector<TiedName> AwdQrnnImpl::tied() const {
  return with_model_names(softmax_->tied());
}

}  // namespace deq::models
