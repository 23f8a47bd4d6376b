#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace deq {

/// Dropout inside an equilibrium. What is dropped is decided once per solve: a mask that changed
/// from step to step would leave f without a fixed point.
class VariationalDropoutImpl : public torch::nn::Module {
 public:
  explicit VariationalDropoutImpl(double rate);  ///< of the entries dropped, 0 ≤ rate < 1

  /// Entries 0, or 1/(1 − rate) where they are kept, to be made in prepare() and multiplied by in
  /// step(); size 1 in the dimensions that share one decision, e.g. [B, C, 1, 1] for images.
  /// Undefined in eval mode and at rate 0: then there is nothing to multiply by.
  torch::Tensor mask(c10::IntArrayRef shape, const torch::TensorOptions& options) const;

  double rate() const { return rate_; }

 private:
  double rate_;
};
TORCH_MODULE(VariationalDropout);

}  // namespace deq
