#pragma once

#include "deq/core/error.h"
#include "deq/solvers/solver.h"

namespace deq {

/// f(z), contiguous, after a look at its shape and type. It holds until the next evaluation at
/// least.
inline torch::Tensor evaluate(const Problem& problem, const torch::Tensor& z) {
  auto value = problem.f(z);
  require(value.sizes() == z.sizes(), "f returned a tensor of shape ", value.sizes(),
          " for a state of shape ", z.sizes());
  require(value.scalar_type() == z.scalar_type(), "f returned ", value.scalar_type(),
          " for a state of type ", z.scalar_type());
  return value.contiguous();
}

}  // namespace deq
