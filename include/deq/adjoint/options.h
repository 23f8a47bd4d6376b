#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "deq/solvers/options.h"

// How the gradient of a loss ℓ reaches f's parameters θ and inputs x through z* = f(z*; x, θ). With
// g = ∂ℓ/∂z* and J = ∂f/∂z at z*, all except the last three give  uᵀ ∂f/∂(θ, x)  for some u.

namespace deq {

/// Exact: u (I − J) = g, solved as the fixed point of u ↦ uJ + g from u₀ = 0, whose image g costs
/// no product with J: a budget of k evaluations is one of k products.
struct Implicit {
  SolverOptions solver = Broyden{.tol = {.rtol = 1e-4}};
  /// Whether the gradient can be differentiated again (create_graph), to any order. Such a layer is
  /// evaluated, not replayed.
  bool twice = false;
};

/// The first terms of the Neumann series: u = g (I + J + … + Jᵏ), k = terms products with J.
struct Truncated {
  int64_t terms = 5;  ///< terms ≥ 0
};

/// u = g, no product at all (Fung et al. 2022).
struct JacobianFree {};

/// u = g H, where H ≈ (I − J)⁻¹ is the inverse that the forward solve by Broyden has built: no
/// product at all (SHINE, Ramzi et al. 2022). Where the history was full and started anew, H knows
/// what came after that. Needs forward = Broyden.
struct Shine {
  /// Where ‖u‖ > fallback·‖g‖, or u is not finite, u = g. fallback > 0.
  double fallback = 1.3;
  /// Goes on from this u, instead of from 0, with an adjoint solve: then it is Implicit's gradient.
  std::optional<SolverOptions> refinement{};
};

/// Backpropagation through `steps` damped steps z ← (1 − τ) z + τ f(z) from z* (Geng et al. 2021).
/// With autograd on, the layer's value is the last of them; without, it is z*.
struct Phantom {
  int64_t steps = 5;  ///< steps ≥ 1
  double tau = 0.5;   ///< 0 < tau ≤ 1
};

/// No solver: `steps` plain steps from z₀, backpropagated through. Exact for what it computes.
struct Unrolled {
  int64_t steps = 10;          ///< steps ≥ 1
  int64_t backpropagated = 0;  ///< only through the last so many of them, ≤ steps; 0: through all
  bool replayed = false;       ///< on a GPU as one graph: faster, and differentiable once only
  /// One evaluation more, so that the report is about the state returned. Otherwise it is about the
  /// state before the last step, whose image is known.
  bool measured = true;

  int64_t without_gradient() const { return backpropagated == 0 ? 0 : steps - backpropagated; }
};

/// No solver: `steps` steps of a pair of states from y = z = z₀,
///   y ← (1 − β) y + β f(z),  z ← (1 − β) z + β f(y),
/// of which z is the layer's value (McCallum et al. 2025). Each can be undone, so backward walks
/// back from the last and keeps none of them: exact for what it computes, as Unrolled is, with
/// memory that does not grow with the steps. The pair is kept in float64, since walking back
/// loses a factor of 1/(1 − β)² a step; Equilibrated::adjoint() says how far from z₀ it arrived.
struct Reversible {
  int64_t steps = 8;  ///< steps ≥ 1, each of two evaluations
  double beta = 0.5;  ///< 0 < beta < 1
};

using GradientOptions =
    std::variant<Implicit, Truncated, JacobianFree, Shine, Phantom, Unrolled, Reversible>;

/// "implicit", "truncated", "jacobian-free", "shine", "phantom", "unrolled", "reversible".
std::string_view gradient_name(const GradientOptions& options);

/// The solver of u (I − J) = g: Implicit's, or Shine's refinement; null where nothing is solved.
const SolverOptions* adjoint_solver(const GradientOptions& options);

/// The same gradient with another budget for that solver, which it must have.
GradientOptions with_adjoint_evals(GradientOptions options, int64_t max_evals);

/// Throws Error naming the field, its value and the constraint.
void validate(const GradientOptions& options);

}  // namespace deq
