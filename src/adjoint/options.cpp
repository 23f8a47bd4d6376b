#include "deq/adjoint/options.h"

#include "core/require.h"

namespace deq {
namespace {

void check(const Implicit& o) {
  validate(o.solver);
}

void check(const Truncated& o) {
  require(o.terms >= 0, "truncated: terms = {}, must be ≥ 0", o.terms);
}

void check(const JacobianFree&) {}

void check(const Shine& o) {
  require(o.fallback > 0, "shine: fallback = {:g}, must be > 0", o.fallback);
  if (o.refinement) validate(*o.refinement);
}

void check(const Phantom& o) {
  require(o.steps >= 1, "phantom: steps = {}, must be ≥ 1", o.steps);
  require(o.tau > 0 && o.tau <= 1, "phantom: tau = {:g}, must be in (0, 1]", o.tau);
}

void check(const Unrolled& o) {
  require(o.steps >= 1, "unrolled: steps = {}, must be ≥ 1", o.steps);
  require(o.backpropagated >= 0 && o.backpropagated <= o.steps,
          "unrolled: backpropagated = {}, must be 0 or one of the {} steps", o.backpropagated,
          o.steps);
}

void check(const Reversible& o) {
  require(o.steps >= 1, "reversible: steps = {}, must be ≥ 1", o.steps);
  require(o.beta > 0 && o.beta < 1, "reversible: beta = {:g}, must be in (0, 1)", o.beta);
}

constexpr std::string_view kGradientNames[] = {"implicit", "truncated", "jacobian-free", "shine",
                                               "phantom",  "unrolled",  "reversible"};
static_assert(std::size(kGradientNames) == std::variant_size_v<GradientOptions>);

}  // namespace

std::string_view gradient_name(const GradientOptions& options) {
  return kGradientNames[options.index()];
}

const SolverOptions* adjoint_solver(const GradientOptions& options) {
  if (const auto* implicit = std::get_if<Implicit>(&options)) return &implicit->solver;
  const auto* shine = std::get_if<Shine>(&options);
  return shine != nullptr && shine->refinement ? &*shine->refinement : nullptr;
}

GradientOptions with_adjoint_evals(GradientOptions options, int64_t max_evals) {
  const auto* solver = adjoint_solver(options);
  require(solver != nullptr, "the gradient {} has no adjoint solver", gradient_name(options));
  const auto changed = with_max_evals(*solver, max_evals);
  if (auto* implicit = std::get_if<Implicit>(&options)) {
    implicit->solver = changed;
  } else {
    std::get<Shine>(options).refinement = changed;
  }
  return options;
}

void validate(const GradientOptions& options) {
  std::visit([](const auto& o) { check(o); }, options);
}

}  // namespace deq
