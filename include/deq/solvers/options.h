#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <variant>

#include "deq/core/tolerance.h"

// Every solver is an aggregate of its options. `max_evals` is the budget of evaluations of f, at
// least 1, trial points and probes included. Options are validated when a Solver is made of them.

namespace deq {

class MixingRule;

/// z ← z + damping·(f(z) − z). Needs no memory; converges where the Jacobian's spectral radius is
/// < 1.
struct Picard {
  double damping = 1.0;  ///< 0 < damping ≤ 1
  Tolerance tol{};
  int64_t max_evals = 40;
  Guards guards{};
};

/// What the ridge is measured against.
enum class RidgeScale {
  Relative,  ///< ridge · (mean diagonal of the Gram matrix): works at every size of residual
  Absolute,  ///< ridge as it stands, as the reference implementations have it
};

/// Anderson acceleration: the combination of the last `memory` iterates with the smallest residual.
struct Anderson {
  int64_t memory = 6;   ///< memory ≥ 1; 1 is damped Picard
  double beta = 1.0;    ///< mixing, 0 < beta ≤ 1:  z ← Σ αᵢ (zᵢ + beta·gᵢ)
  double ridge = 1e-8;  ///< Tikhonov term of the small system, ridge ≥ 0
  RidgeScale ridge_scale = RidgeScale::Relative;
  /// A sample whose residual exceeds this many times its smallest since the last restart starts
  /// anew. > 1.
  double restart_factor = 100.0;
  /// What chooses α and β in place of the smallest residual and `beta`, a LearntMixing for one,
  /// made for this memory. Its solves read their sums on the host, on a GPU too.
  std::shared_ptr<MixingRule> mixing{};
  Tolerance tol{};
  int64_t max_evals = 40;
  Guards guards{};
};

/// "Good" Broyden: a secant approximation of (J − I)⁻¹ that starts from −I. It keeps one slab per
/// evaluation (the steps; the updates follow from them), and starts anew when `memory` is full.
struct Broyden {
  int64_t memory = 60;       ///< memory ≥ 1
  bool line_search = false;  ///< backtrack while a step does not lower the residual
  /// Keep the steps in bfloat16: on a GPU, of float32 states, without a line search. Half the
  /// memory of a history, and less to read; the iterates stay float32.
  bool bfloat16_steps = false;
  Tolerance tol{};
  int64_t max_evals = 40;
  Guards guards{};
};

/// Broyden with a fixed history: the oldest update is dropped when `memory` is full. Two slabs per
/// row.
struct LimitedBroyden {
  int64_t memory = 8;  ///< memory ≥ 1
  Tolerance tol{};
  int64_t max_evals = 40;
  Guards guards{};
};

/// Newton's method; each linear system (I − J) d = g by GMRES, whose products with J are
/// differences of f (one evaluation each) unless the problem brings its own. Backtracks on the
/// residual.
struct NewtonKrylov {
  int64_t krylov_dim = 20;  ///< GMRES vectors, krylov_dim ≥ 1
  double forcing = 1e-2;  ///< GMRES stops at ‖g − (I − J) d‖ ≤ forcing·‖g‖, 0 ≤ forcing < 1
  Tolerance tol{};
  int64_t max_evals = 100;
  Guards guards{};
};

using SolverOptions = std::variant<Picard, Anderson, Broyden, LimitedBroyden, NewtonKrylov>;

/// "picard", "anderson", "broyden", "limited-broyden", "newton-krylov".
std::string_view solver_name(const SolverOptions& options);

/// Throws Error naming solver, field, value and constraint.
void validate(const SolverOptions& options);

const Tolerance& tolerance(const SolverOptions& options);
int64_t max_evals(const SolverOptions& options);
const Guards& guards(const SolverOptions& options);

/// The same solver with another tolerance or budget.
SolverOptions with_tolerance(SolverOptions options, const Tolerance& tol);
SolverOptions with_max_evals(SolverOptions options, int64_t max_evals);

}  // namespace deq
