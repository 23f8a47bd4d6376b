#pragma once

#include "deq/solvers/method.h"

namespace deq {

/// Whether a solve on this device can do without the host, which then reads only whether another
/// evaluation is needed.
bool can_solve_on_device(const SolverOptions& options, const torch::Device& device);

/// The same solve as that of Iteration and Method, to rounding: iterates, statuses, counts, trace.
Solution solve_on_device(const Problem& problem, const SolverOptions& options, SlabPool& pool,
                         const torch::Tensor& z0);

}  // namespace deq
