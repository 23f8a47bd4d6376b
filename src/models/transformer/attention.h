#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "deq/core/cell.h"
#include "deq/models/transformer/options.h"
#include "deq/nn/variational_dropout.h"
#include "models/transformer/linear.h"

namespace deq::models {

/// What attention sees beside the states that it is asked about.
struct AttentionInputs {
  int64_t batch = 0, length = 0;     ///< of those states
  torch::TensorOptions numbers{};    ///< of those states
  torch::Tensor distances{};         ///< of the m + q keys, encoded [m + q, d_model]
  torch::Tensor injection{};         ///< [B, q, 3·heads·d_head], or undefined
  torch::Tensor memory{};            ///< states before them [B, m, d_model], or undefined
  torch::Tensor memory_injection{};  ///< [B, m, 3·heads·d_head], or undefined
};

/// The attention part of a DEQ-Transformer's layer, with its residual. Injections, where there are
/// any, are added to queries, keys and values; the memory's own were kept with it.
class TransformerAttention : public torch::nn::Module {
 public:
  TransformerAttention(const TransformerOptions& options,
                       const std::optional<at::Generator>& generator);

  /// Fills its slots of the context.
  void prepare(Context& context, const AttentionInputs& inputs) const;
  torch::Tensor step(const torch::Tensor& z, const Context& context) const;

 private:
  torch::Tensor memory_keys_values(const torch::Tensor& z, const torch::Tensor& u,
                                   const torch::Tensor& matrix) const;
  /// What all queries look at before their own positions, with so many zeros in front that nobody
  /// sees; undefined where there is nothing.
  torch::Tensor past(const AttentionInputs& inputs, const torch::Tensor& matrix,
                     int64_t hidden) const;
  /// Injections of queries, keys and values, or of some of these kinds, as columns of the matrix;
  /// undefined where there are none.
  torch::Tensor injected(const torch::Tensor& u, int64_t kinds, const torch::Tensor& matrix) const;
  torch::Tensor normalised(const torch::Tensor& x) const;

  int64_t heads_, d_head_, horizon_;
  bool pre_ln_;
  std::shared_ptr<TransformerLinear> qkv_, positions_, out_;
  torch::Tensor content_bias_, position_bias_;
  VariationalDropout attention_dropout_, dropout_;
};

}  // namespace deq::models
