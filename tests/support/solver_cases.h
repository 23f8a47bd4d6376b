#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "deq/solvers/options.h"

namespace deq {

// What GoogleTest prints of a parameter.
inline void PrintTo(const Picard&, std::ostream* out) {
  *out << "Picard";
}
inline void PrintTo(const Anderson&, std::ostream* out) {
  *out << "Anderson";
}
inline void PrintTo(const Broyden&, std::ostream* out) {
  *out << "Broyden";
}
inline void PrintTo(const LimitedBroyden&, std::ostream* out) {
  *out << "LimitedBroyden";
}
inline void PrintTo(const NewtonKrylov&, std::ostream* out) {
  *out << "NewtonKrylov";
}

}  // namespace deq

namespace deq::test {

/// Every solver at this tolerance and budget, with memory to spare.
inline std::vector<SolverOptions> every_solver(const Tolerance& tol, int64_t max_evals,
                                               const Guards& guards = {}) {
  return {Picard{.tol = tol, .max_evals = max_evals, .guards = guards},
          Anderson{.memory = 8, .tol = tol, .max_evals = max_evals, .guards = guards},
          Broyden{.tol = tol, .max_evals = max_evals, .guards = guards},
          LimitedBroyden{.memory = 30, .tol = tol, .max_evals = max_evals, .guards = guards},
          NewtonKrylov{.tol = tol, .max_evals = max_evals, .guards = guards}};
}

/// The solver's name as a test's name.
inline std::string test_name(const SolverOptions& options) {
  constexpr const char* kNames[] = {"Picard", "Anderson", "Broyden", "LimitedBroyden",
                                    "NewtonKrylov"};
  return kNames[options.index()];
}

}  // namespace deq::test
