#include "deq/solvers/solver.h"

#include <mutex>
#include <utility>

#include "core/require.h"
#include "solvers/device_solve.h"
#include "solvers/methods.h"

namespace deq {

/// The methods and slabs of past solves, waiting for the next. One is taken for each solve that
/// runs.
class Solver::Workspaces {
 public:
  struct Workspace {
    std::unique_ptr<Method> method;
    SlabPool pool;
  };

  explicit Workspaces(std::function<std::unique_ptr<Method>()> make_method)
      : make_method_(std::move(make_method)) {}

  Workspace take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return {make_method_(), {}};
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }

  void give_back(Workspace workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::function<std::unique_ptr<Method>()> make_method_;
  std::mutex mutex_;
  std::vector<Workspace> free_;
};

Solver::Solver(const SolverOptions& options)
    : Solver(
          [options] { return std::visit([](const auto& o) { return make_method(o); }, options); },
          options) {
  own_method_ = false;
}

Solver::Solver(std::function<std::unique_ptr<Method>()> make_method, const SolverOptions& options)
    : options_(options),
      own_method_(true),
      workspaces_(std::make_shared<Workspaces>(std::move(make_method))) {
  validate(options_);
}

Solution Solver::solve(const Problem& problem, const torch::Tensor& z0,
                       const Callback& callback) const {
  require(z0.dim() == 2 && z0.numel() > 0,
          "a solve starts from a slab [B, D] with B, D ≥ 1, got {}", z0.sizes());
  require(z0.scalar_type() == torch::kFloat32 || z0.scalar_type() == torch::kFloat64,
          "a state must be float32 or float64, got {}", z0.scalar_type());
  const torch::NoGradGuard no_grad;
  auto workspace = workspaces_->take();
  workspace.pool.reset_like(z0);
  const bool on_device =
      z0.is_cuda() && !callback && !own_method_ && can_solve_on_device(options_, z0.device());
  auto solution = [&] {
    if (on_device) return solve_on_device(problem, options_, workspace.pool, z0);
    Iteration iteration(problem, options_, callback, workspace.pool);
    workspace.method->begin();
    auto start = iteration.slab();
    start.copy_(z0);
    iteration.move_to(start);
    while (iteration.running()) workspace.method->step(iteration);
    auto found = iteration.finish();
    if (problem.keeps_inverse) found.inverse = workspace.method->inverse(iteration);
    return found;
  }();
  workspaces_->give_back(std::move(workspace));
  return solution;
}

}  // namespace deq
