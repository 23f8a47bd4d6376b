#pragma once

#include <optional>

#include "deq/lab/settings/gamma_control.h"

namespace deq::lab {

/// Steers γ so that a measured quantity, which falls as γ grows, meets its target:
///   log γ ← log γ + gain · (log s − log target) + trend_gain · (log s − log s′),
/// with s the smoothed measurement and s′ the one before: a proportional–integral controller.
/// Logarithms, because both live on scales: a factor of two too much calls for the same answer at
/// ρ = 0.2 and at ρ = 2. The trend matters, because a model that was flattened too far comes back
/// slowly or not at all: γ must fall before the target is met. One adjustment changes γ by a factor
/// of four at most.
class GammaController {
 public:
  GammaController(const GammaControl& options, double start);

  bool active() const { return options_.hold != Held::Nothing; }
  double gamma() const { return gamma_; }
  /// What was measured lately; none before the first measurement.
  std::optional<double> smoothed() const { return smoothed_; }

  /// Takes one measurement, made since the last adjustment, and adjusts. A measurement that is not
  /// finite counts as one at twice the target.
  void adjust(double measured);

  /// Goes on from what a checkpoint holds.
  void restore(double gamma, std::optional<double> smoothed);

 private:
  GammaControl options_;
  double gamma_;
  std::optional<double> smoothed_;
};

}  // namespace deq::lab
