#include "deq/lab/settings/parts.h"

#include <type_traits>

namespace deq::lab {

GradientOptions gradient_options(const GradientConfig& gradient, const SolverOptions& adjoint) {
  return std::visit(
      [&adjoint](const auto& chosen) -> GradientOptions {
        if constexpr (std::is_same_v<std::decay_t<decltype(chosen)>, ImplicitGradient>) {
          return Implicit{.solver = adjoint};
        } else {
          return chosen;
        }
      },
      gradient);
}

}  // namespace deq::lab
