#include "deq/solvers/options.h"

#include "deq/core/error.h"

namespace deq {
namespace {

void check_common(std::string_view solver, const Tolerance& tol, int64_t max_evals,
                  const Guards& guards) {
  require(tol.atol >= 0, solver, ": tol.atol = ", tol.atol, ", must be ≥ 0");
  require(tol.rtol >= 0, solver, ": tol.rtol = ", tol.rtol, ", must be ≥ 0");
  require(max_evals >= 1, solver, ": max_evals = ", max_evals, ", must be ≥ 1");
  require(guards.stagnation_window >= 0, solver,
          ": guards.stagnation_window = ", guards.stagnation_window, ", must be ≥ 0");
  require(guards.divergence_factor > 1, solver,
          ": guards.divergence_factor = ", guards.divergence_factor, ", must be > 1");
}

void check(const Picard& o) {
  require(o.damping > 0 && o.damping <= 1, "picard: damping = ", o.damping, ", must be in (0, 1]");
}

void check(const Anderson& o) {
  require(o.memory >= 1, "anderson: memory = ", o.memory, ", must be ≥ 1");
  require(o.beta > 0 && o.beta <= 1, "anderson: beta = ", o.beta, ", must be in (0, 1]");
  require(o.ridge >= 0, "anderson: ridge = ", o.ridge, ", must be ≥ 0");
  require(o.restart_factor > 1, "anderson: restart_factor = ", o.restart_factor, ", must be > 1");
}

void check(const Broyden& o) {
  require(o.memory >= 1, "broyden: memory = ", o.memory, ", must be ≥ 1");
}

void check(const LimitedBroyden& o) {
  require(o.memory >= 1, "limited-broyden: memory = ", o.memory, ", must be ≥ 1");
}

void check(const NewtonKrylov& o) {
  require(o.krylov_dim >= 1, "newton-krylov: krylov_dim = ", o.krylov_dim, ", must be ≥ 1");
  require(o.forcing >= 0 && o.forcing < 1, "newton-krylov: forcing = ", o.forcing,
          ", must be in [0, 1)");
}

constexpr std::string_view kNames[] = {"picard", "anderson", "broyden", "limited-broyden",
                                       "newton-krylov"};
static_assert(std::size(kNames) == std::variant_size_v<SolverOptions>);

}  // namespace

std::string_view name(const SolverOptions& options) {
  return kNames[options.index()];
}

void validate(const SolverOptions& options) {
  check_common(name(options), tolerance(options), max_evals(options), guards(options));
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
