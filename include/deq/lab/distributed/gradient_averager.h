#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "deq/lab/distributed/world.h"

namespace deq::lab {

struct AveragerOptions {
  int64_t bucket_bytes = int64_t{25} << 20;  ///< > 0; gradients that travel together
};

/// Gives every rank the tensors of rank 0.
void broadcast_from_main(World& world, const std::vector<torch::Tensor>& tensors);

/// Averages gradients over the world while backward still runs: the sum over the ranks, divided by
/// their number. A rank whose share of the batch is larger or smaller than the others' scales its
/// loss accordingly. Does nothing in a world of one.
class GradientAverager {
 public:
  /// `parameters` in the order of the module; those without gradient are left out.
  GradientAverager(std::shared_ptr<World> world, const std::vector<torch::Tensor>& parameters,
                   const AveragerOptions& options = {});
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;
  ~GradientAverager();

  /// Before the loss.backward() after which gradients are to be averages, on every rank. Backward
  /// passes without it only accumulate on their rank; the next one with it averages the accumulated
  /// sum. Parameters that the loss does not depend on count as zero; where that is so on every
  /// rank, their gradient is left as it is. The loss must depend on at least one parameter.
  void expect_backward(const torch::Tensor& loss);

 private:
  struct Impl;
  std::shared_ptr<World> world_;
  std::unique_ptr<Impl> impl_;  // null in a world of one
};

}  // namespace deq::lab
