#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <string>

#include "deq/lab/train/optimiser.h"
#include "deq/models/transformer/tensor_parallel.h"

namespace deq::lab {

/// A model that several processes hold in parts, as its checkpoints know it: whole.
class ModelParts {
 public:
  using Tensors = std::map<std::string, torch::Tensor>;

  explicit ModelParts(std::shared_ptr<models::TensorParallel> group);

  /// What this process's state is a part of, on the host, one tensor after the other; all of the
  /// group call it.
  Tensors join(const Tensors& own) const;
  /// What this process holds of it.
  Tensors cut(const Tensors& whole) const;

  /// The Euclidean norm of all gradients of the whole model; all of the group call it.
  double gradient_norm(const Optimiser::NamedParameters& parameters) const;

 private:
  std::shared_ptr<models::TensorParallel> group_;
};

}  // namespace deq::lab
