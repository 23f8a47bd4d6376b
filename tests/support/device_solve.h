#pragma once

#include <vector>

#include "deq/solvers/solver.h"

namespace deq::test {

/// Solvers that need no host between evaluations, with histories that fill, restart and run into
/// singular systems.
std::vector<SolverOptions> device_solvers(const Tolerance& tol, int64_t max_evals,
                                          const Guards& guards = {});

/// Solves with the host's decisions and with the device's, on the device that `start` is on, f as
/// it is and as one on memory of its own, with and without knowledge of f(start), and expects the
/// same bits and the same report. Returns the solution, without.
Solution expect_same_solve(const SolverOptions& options, const Map& f, const torch::Tensor& start);

}  // namespace deq::test
