#pragma once

namespace deq {

/// Whose norm decides: each sample's own (a sample's result does not depend on its neighbours), or
/// one norm over the whole batch, as the reference implementations have it.
enum class NormScope { PerSample, WholeBatch };

/// An iterate z has converged when  ‖f(z) − z‖₂ ≤ atol + rtol·‖f(z)‖₂.
/// rtol = 0 is a purely absolute test, atol = 0 a purely relative one. With both 0 only an exact
/// fixed point stops a solve early.
struct Tolerance {
  double atol = 0.0;   ///< atol ≥ 0
  double rtol = 1e-3;  ///< rtol ≥ 0
  NormScope scope = NormScope::PerSample;
};

/// When to give up on a sample before its budget is spent.
struct Guards {
  /// Stagnated: over this many iterates in a row the best residual fell by less than 1%. 0: never.
  int stagnation_window = 30;
  /// Diverged: ‖f(z) − z‖ > divergence_factor · ‖f(z₀) − z₀‖. Must be > 1.
  double divergence_factor = 1e4;
};

}  // namespace deq
