#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "deq/solvers/options.h"
#include "kernels/common/host_device.h"
#include "solvers/cholesky.h"

// Anderson's small systems (notation in anderson.cpp), one sample at a time, on plain arrays, for
// host and device. A sample's Gram matrix is [memory, memory] by slot; slots are used in turn.

namespace deq {

struct AndersonRules {
  int64_t memory;
  double ridge;
  bool relative_ridge;
  double restart_factor;
};

inline AndersonRules anderson_rules(const Anderson& options) {
  return {options.memory, options.ridge, options.ridge_scale == RidgeScale::Relative,
          options.restart_factor};
}

/// One sample's history; all zeros is an empty one.
struct AndersonHistory {
  int64_t length = 0;   // how many of the newest slots it uses
  double smallest = 0;  // the smallest residual since its last restart
  int64_t restarts = 0, ridge_raises = 0;
};

/// The slot that was filled `age` < memory steps before the newest.
DEQ_HOST_DEVICE int64_t older_slot(int64_t newest, int64_t age, int64_t memory) {
  return newest - age + (newest < age ? memory : 0);
}

/// Takes the newest g, the last of `steps`, into the Gram matrix. `dots` are those with the g of
/// all other slots, in their order.
DEQ_HOST_DEVICE void remember_residual(const AndersonRules& rules, int64_t steps,
                                       double squared_norm, const double* dots, double residual,
                                       double* gram, AndersonHistory& history) {
  const int64_t m = rules.memory, slots = std::min(steps, m);
  const int64_t slot = (steps - 1) % m;
  for (int64_t i = 0; i < slots; ++i) {
    if (i != slot) gram[slot * m + i] = gram[i * m + slot] = dots[i < slot ? i : i - 1];
  }
  gram[slot * m + slot] = squared_norm;
  history.length = std::min(history.length + 1, slots);
  if (history.length == 1) history.smallest = residual;
  if (history.length > 1 && residual > rules.restart_factor * history.smallest) {
    history.length = 1;
    ++history.restarts;
    history.smallest = residual;  // what came before must not restart the new history too
  }
  history.smallest = std::min(history.smallest, residual);
}

/// α / Σ α; false where that cancels every digit.
DEQ_HOST_DEVICE bool normalise_weights(double* alpha, int64_t n) {
  constexpr double kLargestWeights = 1e8;  // Σ|αᵢ| beyond this cancels every digit of a float64
  double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += alpha[i];
    magnitude += std::abs(alpha[i]);
  }
  if (!std::isfinite(magnitude) || magnitude > kLargestWeights * std::abs(sum)) return false;
  for (int64_t i = 0; i < n; ++i) alpha[i] /= sum;
  return true;
}

/// What a ridge is raised to at least, times the mean diagonal.
inline constexpr double kLeastRidge = 1e-14;

/// The weights α of the newest slots, the newest first; returns how many. Where the system is
/// singular the ridge grows; where that does not help the history restarts, and the plain step
/// remains. `alpha` has room for `memory` numbers and `system` for their square.
DEQ_HOST_DEVICE int64_t anderson_weights(const AndersonRules& rules, int64_t steps,
                                         const double* gram, AndersonHistory& history,
                                         double* system, double* alpha) {
  constexpr double kRidgeGrowth = 100.0;
  const int64_t m = rules.memory, n = history.length, newest = (steps - 1) % m;
  double mean_diagonal = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t slot = older_slot(newest, i, m);
    mean_diagonal += gram[slot * m + slot] / static_cast<double>(n);
  }
  double ridge = rules.relative_ridge ? rules.ridge * mean_diagonal : rules.ridge;
  for (;;) {
    for (int64_t i = 0; i < n; ++i) {
      const double* row = gram + older_slot(newest, i, m) * m;
      for (int64_t j = 0; j < n; ++j) system[i * n + j] = row[older_slot(newest, j, m)];
      system[i * n + i] += ridge;
      alpha[i] = 1.0;
    }
    if (solve_positive_definite(system, alpha, n) && normalise_weights(alpha, n)) return n;
    if (!(ridge < mean_diagonal) || n == 1) break;
    const double raised = std::max(kRidgeGrowth * ridge, kLeastRidge * mean_diagonal);
    if (!(raised > ridge)) break;  // the squares are so small that a ridge vanishes beside them
    ridge = raised;
    ++history.ridge_raises;
  }
  if (n > 1) {
    history.length = 1;
    ++history.restarts;
  }
  alpha[0] = 1.0;
  return 1;
}

}  // namespace deq
