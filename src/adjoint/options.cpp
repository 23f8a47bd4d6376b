#include "deq/adjoint/options.h"

#include "deq/core/error.h"

namespace deq {
namespace {

void check(const Implicit& o) {
  validate(o.solver);
}

void check(const Truncated& o) {
  require(o.terms >= 0, "truncated: terms = ", o.terms, ", must be ≥ 0");
}

void check(const JacobianFree&) {}

void check(const Phantom& o) {
  require(o.steps >= 1, "phantom: steps = ", o.steps, ", must be ≥ 1");
  require(o.tau > 0 && o.tau <= 1, "phantom: tau = ", o.tau, ", must be in (0, 1]");
}

void check(const Unrolled& o) {
  require(o.steps >= 1, "unrolled: steps = ", o.steps, ", must be ≥ 1");
}

constexpr std::string_view kNames[] = {"implicit", "truncated", "jacobian-free", "phantom",
                                       "unrolled"};
static_assert(std::size(kNames) == std::variant_size_v<GradientOptions>);

}  // namespace

std::string_view name(const GradientOptions& options) {
  return kNames[options.index()];
}

void validate(const GradientOptions& options) {
  std::visit([](const auto& o) { check(o); }, options);
}

}  // namespace deq
