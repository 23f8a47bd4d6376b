#include "models/recurrent/relational_core.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "core/autocast.h"
#include "models/linear.h"
#include "models/recurrent/repeated.h"

// For one word, with x as a row of the slots' size:
//
//   R = [M; x]
//   in every block:  Q, K, V = norm(R W + b),  A = softmax(Q Kᵀ / √head size) V for each head,
//                    R ← norm(R + A),  R ← norm(R + mlp(R))
//   M' = σ(i) ∘ tanh(R without x's row) + σ(f) ∘ M,  (i, f) = W x + U tanh(M) + b.
//
// x is computed for all words of a segment at once, and so is all that depends on it alone: W x + b
// and its queries, keys and values in the first block. In the last block only slots ask.

namespace deq::models {
namespace {

/// What the authors' code adds to the gates.
constexpr double kForgetBias = 1, kInputBias = 0;

torch::nn::LayerNorm norm_of(int64_t features) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({features}));
}

Repeated repeated(const torch::nn::Linear& layer) {
  return Repeated::linear(layer->weight, layer->bias);
}

Repeated repeated(const torch::nn::LayerNorm& norm) {
  return Repeated::layer_norm(norm->weight, norm->bias);
}

}  // namespace

torch::nn::Linear drawn_linear(int64_t in, int64_t out,
                               const std::optional<at::Generator>& generator) {
  torch::nn::Linear layer(in, out);
  const torch::NoGradGuard constant;
  layer->weight.normal_(0, 1 / std::sqrt(static_cast<double>(in)), generator);
  layer->bias.zero_();
  return layer;
}

RelationalCore::RelationalCore(const RelationalMemoryOptions& options,
                               const std::optional<at::Generator>& generator)
    : slots_(options.slots),
      heads_(options.heads),
      head_size_(options.head_size),
      gates_(options.gates) {
  const auto size = options.slot_size();
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    return register_module(name, drawn_linear(in, out, generator));
  };
  input_ = linear("input", options.d_model, size);
  for (int64_t i = 0; i < options.blocks; ++i) {
    const auto name = fmt::format("block_{}_", i);
    const auto norm = [&](const char* what, int64_t features) {
      return register_module(name + what, norm_of(features));
    };
    blocks_.push_back({.qkv = linear(name + "qkv", size, 3 * size),
                       .qkv_norm = norm("qkv_norm", 3 * size),
                       .attention_norm = norm("attention_norm", size),
                       .mlp_norm = norm("mlp_norm", size)});
  }
  for (int64_t i = 0; i < options.mlp_layers; ++i) {
    mlp_.push_back(linear(fmt::format("mlp_{}", i), size, size));
  }
  if (gates_ == MemoryGates::None) return;
  word_gates_ = linear("word_gates", size, 2 * gate_count());
  memory_gates_ = linear("memory_gates", size, 2 * gate_count());
}

int64_t RelationalCore::gate_count() const {
  return gates_ == MemoryGates::Unit ? heads_ * head_size_ : 1;
}

/// A segment on its way through the core.
class RelationalCore::Pass {
 public:
  Pass(const RelationalCore& core, const torch::Tensor& words)
      : core_(core),
        batch_(words.size(0)),
        size_(core.heads_ * core.head_size_),
        type_(compute_type(core.input_->weight)) {
    for (const auto& block : core.blocks_) {
      const auto scales = attention_scales(block.qkv_norm->weight);
      blocks_.push_back({.qkv = repeated(block.qkv),
                         .qkv_norm = Repeated::layer_norm(block.qkv_norm->weight * scales,
                                                          block.qkv_norm->bias * scales),
                         .attention_norm = repeated(block.attention_norm),
                         .mlp_norm = repeated(block.mlp_norm)});
    }
    for (const auto& layer : core.mlp_) mlp_.push_back(repeated(layer));
    read(words);
    if (core.gates_ != MemoryGates::None) memory_gates_.emplace(repeated(core.memory_gates_));
  }

  /// The memory after a word.
  torch::Tensor next(const torch::Tensor& memory, size_t word) const {
    auto rows = blocks_.size() == 1 ? memory : torch::cat({memory, rows_[word]}, 1);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto& block = blocks_[i];
      const auto qkv = i == 0 ? torch::cat({by_head(block.projected(memory)), qkv_[word]}, 3)
                              : by_head(block.projected(rows));
      const bool last = i + 1 == blocks_.size();
      if (last && rows.size(1) > core_.slots_) rows = rows.narrow(1, 0, core_.slots_);
      rows = through(block, rows, qkv.to(type_));
    }
    return memory_gates_ ? gated(memory, rows, gates_[word]) : rows;
  }

 private:
  struct Block {
    Repeated qkv, qkv_norm, attention_norm, mlp_norm;
    torch::Tensor projected(const torch::Tensor& rows) const { return qkv_norm(qkv(rows)); }
  };

  /// 1/√head size for queries, 1 for keys and values: so the norm before them divides the scores.
  torch::Tensor attention_scales(const torch::Tensor& like) const {
    auto scales = torch::ones_like(like, like.options().requires_grad(false));
    scales.narrow(0, 0, size_).fill_(1 / std::sqrt(static_cast<double>(core_.head_size_)));
    return scales;
  }

  /// All that depends on the words alone, by position first.
  void read(const torch::Tensor& words) {
    const auto length = words.size(1);
    const auto rows = linear(core_.input_, words.transpose(0, 1).flatten(0, 1));
    const auto by_position = [&](const torch::Tensor& all) {
      return all.view({length, batch_, 1, -1}).unbind(0);
    };
    rows_ = by_position(rows.to(core_.input_->weight.scalar_type()));
    const auto qkv = blocks_.front().projected(rows);
    qkv_ = qkv.view({length, batch_, 1, 3, core_.heads_, core_.head_size_})
               .permute({0, 3, 1, 4, 2, 5})
               .unbind(0);
    if (core_.gates_ == MemoryGates::None) return;
    const auto& gates = core_.word_gates_;
    auto offsets =
        torch::full_like(gates->bias, kInputBias, gates->bias.options().requires_grad(false));
    offsets.narrow(0, core_.gate_count(), core_.gate_count()).fill_(kForgetBias);
    gates_ = by_position(kernels::linear(rows, gates->weight, gates->bias + offsets));
  }

  /// [3, B, heads, n, head size] of [B, n, 3 · slot size].
  torch::Tensor by_head(const torch::Tensor& qkv) const {
    return qkv.view({batch_, -1, 3, core_.heads_, core_.head_size_}).permute({2, 0, 3, 1, 4});
  }

  /// The first rows after a block, for the queries, keys and values of all rows.
  torch::Tensor through(const Block& block, const torch::Tensor& rows,
                        const torch::Tensor& qkv) const {
    const auto parts = qkv.contiguous().flatten(1, 2).unbind(0);
    const auto asking = rows.size(1);
    const auto scores = parts[0].narrow(1, 0, asking).bmm(parts[1].transpose(1, 2));
    const auto attended = scores.softmax(-1).to(type_).bmm(parts[2]);
    const auto seen =
        block.attention_norm(rows + attended.view({batch_, core_.heads_, asking, core_.head_size_})
                                        .transpose(1, 2)
                                        .reshape({batch_, asking, size_}));
    auto hidden = mlp_.front()(seen);
    for (size_t i = 1; i < mlp_.size(); ++i) hidden = mlp_[i](hidden.relu());
    return block.mlp_norm(seen + hidden);
  }

  torch::Tensor gated(const torch::Tensor& memory, const torch::Tensor& rows,
                      const torch::Tensor& word) const {
    const auto gates = ((*memory_gates_)(memory.tanh()) + word)
                           .sigmoid()
                           .to(memory.scalar_type())
                           .view({batch_, core_.slots_, 2, -1})
                           .unbind(2);
    return gates[0] * rows.tanh() + gates[1] * memory;
  }

  const RelationalCore& core_;
  int64_t batch_, size_;
  at::ScalarType type_;  // of products
  std::vector<Block> blocks_;
  std::vector<Repeated> mlp_;
  std::optional<Repeated> memory_gates_;
  std::vector<torch::Tensor> rows_, qkv_, gates_;  // of every word
};

torch::Tensor RelationalCore::forward(const torch::Tensor& words,
                                      const torch::Tensor& memory) const {
  const Pass pass(*this, words);
  std::vector<torch::Tensor> memories;
  auto current = memory;
  for (int64_t word = 0; word < words.size(1); ++word) {
    current = pass.next(current, static_cast<size_t>(word));
    memories.push_back(current);
  }
  return torch::stack(memories, 1).flatten(2);
}

}  // namespace deq::models
