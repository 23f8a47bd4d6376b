#pragma once

#include "core/require.h"
#include "core/write_check.h"
#include "deq/core/interruption.h"
#include "deq/solvers/solver.h"

namespace deq {

/// f(z), contiguous, once its shape and type are those of z.
inline torch::Tensor checked_image(const torch::Tensor& value, const torch::Tensor& z) {
  require(value.sizes() == z.sizes(), "f returned a tensor of shape {} for a state of shape {}",
          value.sizes(), z.sizes());
  require(value.scalar_type() == z.scalar_type(), "f returned {} for a state of type {}",
          value.scalar_type(), z.scalar_type());
  return value.contiguous();
}

/// f(z). It is valid at least until the next evaluation.
inline torch::Tensor evaluate(const Problem& problem, const torch::Tensor& z) {
  check_interruption();
  return checked_image(image_of(problem.f, z), z);
}

}  // namespace deq
