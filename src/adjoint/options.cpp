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

constexpr std::string_view kGradientNames[] = {"implicit", "truncated", "jacobian-free", "phantom",
                                               "unrolled"};
static_assert(std::size(kGradientNames) == std::variant_size_v<GradientOptions>);

}  // namespace

std::string_view gradient_name(const GradientOptions& options) {
  return kGradientNames[options.index()];
}

void validate(const GradientOptions& options) {
  std::visit([](const auto& o) { check(o); }, options);
}

}  // namespace deq
