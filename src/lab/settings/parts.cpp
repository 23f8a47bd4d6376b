#include "deq/lab/settings/parts.h"

#include <type_traits>

namespace deq::lab {

GradientOptions gradient_options(const GradientConfig& gradient, const SolverOptions& adjoint) {
  return std::visit(
      [&adjoint](const auto& chosen) -> GradientOptions {
        using Chosen = std::decay_t<decltype(chosen)>;
        if constexpr (std::is_same_v<Chosen, ImplicitGradient>) {
          return Implicit{.solver = adjoint};
        } else if constexpr (std::is_same_v<Chosen, ShineGradient>) {
          return Shine{.fallback = chosen.fallback,
                       .refinement = chosen.refined ? std::optional(adjoint) : std::nullopt};
        } else {
          return chosen;
        }
      },
      gradient);
}

}  // namespace deq::lab
