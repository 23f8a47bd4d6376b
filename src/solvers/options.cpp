#include "deq/solvers/options.h"

#include "core/require.h"
#include "deq/solvers/mixing_rule.h"

namespace deq {
namespace {

void check_common(std::string_view solver, const Tolerance& tol, int64_t max_evals,
                  const Guards& guards) {
  require(tol.atol >= 0, "{}: tol.atol = {:g}, must be ≥ 0", solver, tol.atol);
  require(tol.rtol >= 0, "{}: tol.rtol = {:g}, must be ≥ 0", solver, tol.rtol);
  require(max_evals >= 1, "{}: max_evals = {}, must be ≥ 1", solver, max_evals);
  require(guards.stagnation_window >= 0, "{}: guards.stagnation_window = {}, must be ≥ 0", solver,
          guards.stagnation_window);
  require(guards.divergence_factor > 1, "{}: guards.divergence_factor = {:g}, must be > 1", solver,
          guards.divergence_factor);
}

void check(const Picard& o) {
  require(o.damping > 0 && o.damping <= 1, "picard: damping = {:g}, must be in (0, 1]", o.damping);
}

void check(const Anderson& o) {
  require(o.memory >= 1, "anderson: memory = {}, must be ≥ 1", o.memory);
  require(o.beta > 0 && o.beta <= 1, "anderson: beta = {:g}, must be in (0, 1]", o.beta);
  require(o.ridge >= 0, "anderson: ridge = {:g}, must be ≥ 0", o.ridge);
  require(o.restart_factor > 1, "anderson: restart_factor = {:g}, must be > 1", o.restart_factor);
  require(!o.mixing || o.mixing->memory() == o.memory,
          "anderson: mixing was made for memory = {}, memory is {}",
          o.mixing ? o.mixing->memory() : 0, o.memory);
}

void check(const Broyden& o) {
  require(o.memory >= 1, "broyden: memory = {}, must be ≥ 1", o.memory);
}

void check(const LimitedBroyden& o) {
  require(o.memory >= 1, "limited-broyden: memory = {}, must be ≥ 1", o.memory);
}

void check(const NewtonKrylov& o) {
  require(o.krylov_dim >= 1, "newton-krylov: krylov_dim = {}, must be ≥ 1", o.krylov_dim);
  require(o.forcing >= 0 && o.forcing < 1, "newton-krylov: forcing = {:g}, must be in [0, 1)",
          o.forcing);
}

constexpr std::string_view kSolverNames[] = {"picard", "anderson", "broyden", "limited-broyden",
                                             "newton-krylov"};
static_assert(std::size(kSolverNames) == std::variant_size_v<SolverOptions>);

}  // namespace

std::string_view solver_name(const SolverOptions& options) {
  return kSolverNames[options.index()];
}

void validate(const SolverOptions& options) {
  check_common(solver_name(options), tolerance(options), max_evals(options), guards(options));
  std::visit([](const auto& o) { check(o); }, options);
}

const Tolerance& tolerance(const SolverOptions& options) {
  return std::visit([](const auto& o) -> const Tolerance& { return o.tol; }, options);
}

int64_t max_evals(const SolverOptions& options) {
  return std::visit([](const auto& o) { return o.max_evals; }, options);
}

const Guards& guards(const SolverOptions& options) {
  return std::visit([](const auto& o) -> const Guards& { return o.guards; }, options);
}

SolverOptions with_tolerance(SolverOptions options, const Tolerance& tol) {
  std::visit([&tol](auto& o) { o.tol = tol; }, options);
  return options;
}

SolverOptions with_max_evals(SolverOptions options, int64_t max_evals) {
  std::visit([max_evals](auto& o) { o.max_evals = max_evals; }, options);
  return options;
}

}  // namespace deq
