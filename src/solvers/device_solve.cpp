#include "solvers/device_solve.h"

#include "solvers/device_methods.h"

namespace deq {

bool can_solve_on_device(const SolverOptions& options, const torch::Device& device) {
  return decisions::available(device) && make_device_method(options) != nullptr;
}

Solution solve_on_device(const Problem& problem, const SolverOptions& options, SlabPool& pool,
                         const torch::Tensor& z0) {
  const auto method = make_device_method(options);
  DeviceIteration iteration(problem, options, pool, z0);
  while (iteration.budget_left()) {
    const auto move = method->propose(iteration);
    if (iteration.stopped()) break;
    iteration.move_to(move);
  }
  Report report;
  method->count(iteration, report);
  auto solution = iteration.finish(std::move(report));
  if (problem.keeps_inverse) solution.inverse = method->inverse(iteration);
  return solution;
}

}  // namespace deq
