#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

#include "deq/core/cell.h"
#include "deq/models/transformer/options.h"
#include "deq/nn/variational_dropout.h"
#include "models/transformer/linear.h"

namespace deq::models {

/// The part of a DEQ-Transformer's layer that looks at one position at a time, with its residual.
class TransformerFeedForward : public torch::nn::Module {
 public:
  TransformerFeedForward(const TransformerOptions& options,
                         const std::optional<at::Generator>& generator);

  /// Fills its slots of the context, for a batch of this size and numbers of this kind.
  void prepare(Context& context, int64_t batch, const torch::TensorOptions& numbers) const;
  torch::Tensor step(const torch::Tensor& z, const Context& context) const;

 private:
  bool pre_ln_, normalised_residual_;
  std::shared_ptr<TransformerLinear> inner_, outer_;
  VariationalDropout inner_dropout_, outer_dropout_;
};

}  // namespace deq::models
