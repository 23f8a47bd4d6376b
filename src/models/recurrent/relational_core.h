#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <optional>
#include <vector>

#include "deq/models/recurrent/relational_memory_options.h"
#include "deq/models/transformer/adaptive_vocabulary.h"

namespace deq::models {

AdaptiveVocabulary adaptive_vocabulary(const RelationalMemoryOptions& options);

/// As the authors' layers start, but from a normal distribution that is not cut off: spread 1/√in,
/// biases 0.
torch::nn::Linear drawn_linear(int64_t in, int64_t out,
                               const std::optional<at::Generator>& generator);

/// The memory and how words change it.
class RelationalCore : public torch::nn::Module {
 public:
  RelationalCore(const RelationalMemoryOptions& options,
                 const std::optional<at::Generator>& generator);

  /// The memory after each word [B, T, slots · slot size], for words [B, T, d_model] and the memory
  /// before the first of them [B, slots, slot size].
  torch::Tensor forward(const torch::Tensor& words, const torch::Tensor& memory) const;

  struct Block {
    torch::nn::Linear qkv{nullptr};
    torch::nn::LayerNorm qkv_norm{nullptr}, attention_norm{nullptr}, mlp_norm{nullptr};
  };

 private:
  class Pass;
  int64_t gate_count() const;  ///< of one kind, for a slot

  int64_t slots_, heads_, head_size_;
  MemoryGates gates_;
  torch::nn::Linear input_{nullptr};  // a word as a row beside the slots
  std::vector<Block> blocks_;
  std::vector<torch::nn::Linear> mlp_;
  torch::nn::Linear word_gates_{nullptr}, memory_gates_{nullptr};  // none without gates
};

}  // namespace deq::models
