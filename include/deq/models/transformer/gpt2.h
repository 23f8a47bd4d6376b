#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <vector>

#include "deq/models/transformer/adaptive_softmax.h"
#include "deq/models/transformer/gpt2_options.h"
#include "deq/models/transformer/tensor_parallel.h"

namespace deq::models {

class Gpt2Layer;

/// The last words of the text before. Learned positions cannot be shifted, so they are read again,
/// in front of the new ones.
struct Gpt2Memory {
  int64_t capacity = 0;    ///< words kept at most, ≥ 0
  torch::Tensor tokens{};  ///< [B, m], int64; undefined at the beginning

  int64_t length() const { return tokens.defined() ? tokens.size(1) : 0; }
};

/// A piece of text, read.
struct Gpt2Reading {
  torch::Tensor hidden;  ///< [B, T, d_model]: what words are predicted from
  Gpt2Memory memory;
};

struct Gpt2Output {
  torch::Tensor nll;  ///< −log p of every target [B, T]
  Gpt2Reading reading;
};

/// A language model of pre-LN layers with learned positions: word_emb, position_emb, layers.N,
/// final_norm and crit. What is tied is one parameter, under the embedding's name. Words are
/// embedded by an AdaptiveEmbedding without its factor √d_model; the softmax has a bias, which
/// GPT-2's has not.
///
/// With a group, this process holds its part of every layer: some of the attention's heads and some
/// of the inner features. All else is the same on all processes, and so are results and the
/// gradients of what they share. Each of a layer's two parts is added up once on the way forward
/// and once on the way back.
class GPT2Impl : public torch::nn::Module {
 public:
  /// From one generator, all processes of a group and one process alone start with the same model.
  explicit GPT2Impl(const Gpt2Options& options = {},
                    const std::optional<at::Generator>& generator = {},
                    std::shared_ptr<TensorParallel> group = {});

  /// The cost of `targets`, the word after each of `tokens`; both [B, T], int64. Memory and text
  /// are `positions` words at most.
  Gpt2Output forward(const torch::Tensor& tokens, const torch::Tensor& targets,
                     const Gpt2Memory& memory);

  /// The same without targets.
  Gpt2Reading read(const torch::Tensor& tokens, const Gpt2Memory& memory);

  /// log p of every word as the next one, […, vocabulary] for hidden […, d_model].
  torch::Tensor log_probabilities(const torch::Tensor& hidden);

  const Gpt2Options& options() const { return options_; }
  /// Names of checkpoints that repeat another parameter, and the other's name.
  std::vector<TiedName> tied() const;

 private:
  void check(const torch::Tensor& tokens, const Gpt2Memory& memory) const;

  Gpt2Options options_;
  std::shared_ptr<TensorParallel> group_;  // null where this process has all
  AdaptiveEmbedding embedding_{nullptr};
  torch::Tensor positions_;  // [positions, d_model]
  std::vector<std::shared_ptr<Gpt2Layer>> layers_;
  torch::nn::LayerNorm final_norm_{nullptr};
  AdaptiveSoftmax softmax_{nullptr};
};
TORCH_MODULE(GPT2);

}  // namespace deq::models
