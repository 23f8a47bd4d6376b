#pragma once

#include <string>
#include <vector>

#include "deq/solvers/options.h"

namespace deq::test {

/// Every solver at this tolerance and budget, with memory to spare.
inline std::vector<SolverOptions> every_solver(const Tolerance& tol, int64_t max_evals) {
  return {Picard{.tol = tol, .max_evals = max_evals},
          Anderson{.memory = 8, .tol = tol, .max_evals = max_evals},
          Broyden{.tol = tol, .max_evals = max_evals},
          LimitedBroyden{.memory = 30, .tol = tol, .max_evals = max_evals},
          NewtonKrylov{.tol = tol, .max_evals = max_evals}};
}

/// The solver's name as a test's name.
inline std::string test_name(const SolverOptions& options) {
  constexpr const char* kNames[] = {"Picard", "Anderson", "Broyden", "LimitedBroyden",
                                    "NewtonKrylov"};
  return kNames[options.index()];
}

}  // namespace deq::test
