#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "deq/core/cell.h"
#include "deq/models/transformer/options.h"
#include "deq/nn/variational_dropout.h"
#include "models/transformer/linear.h"

namespace deq::models {

/// The attention part of a DEQ-Transformer's layer, with its residual. Injections are added to
/// queries, keys and values; the memory's own were kept with it.
class TransformerAttention : public torch::nn::Module {
 public:
  TransformerAttention(const TransformerOptions& options,
                       const std::optional<at::Generator>& generator);

  /// Fills its slots of the context; inputs as TransformerCell has them.
  void prepare(Context& context, const Inputs& inputs) const;
  torch::Tensor step(const torch::Tensor& z, const Context& context) const;

 private:
  torch::Tensor memory_keys_values(const torch::Tensor& z, const torch::Tensor& u,
                                   const torch::Tensor& matrix) const;
  /// What all queries look at before their own positions, with so many zeros in front that nobody
  /// sees; undefined where there is nothing.
  torch::Tensor past(const Inputs& inputs, const torch::Tensor& matrix, int64_t hidden) const;
  /// Injections of queries, keys and values, or of some of these kinds, as columns of the matrix.
  torch::Tensor injected(const torch::Tensor& u, int64_t kinds, const torch::Tensor& matrix) const;
  torch::Tensor normalised(const torch::Tensor& x) const;

  int64_t heads_, d_head_, horizon_;
  bool pre_ln_;
  std::shared_ptr<TransformerLinear> qkv_, positions_, out_;
  torch::Tensor content_bias_, position_bias_;
  VariationalDropout attention_dropout_, dropout_;
};

}  // namespace deq::models
