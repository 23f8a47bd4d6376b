#pragma once

#include <cstdint>

namespace deq::lab {

/// What an adaptive γ holds at its target.
enum class Held {
  Nothing,            ///< γ follows its schedule
  SpectralRadius,     ///< the mean ρ(J) of validation samples
  Residual,           ///< the mean relative residual of the training solves
  ForwardEvaluations  ///< the mean evaluations per training sample, which the budget caps
};

struct GammaControl {
  Held hold = Held::Nothing;
  double target = 1;       ///< > 0
  double min = 1e-3;       ///< > 0; γ never leaves [min, max]
  double max = 10;         ///< ≥ min
  double gain = 0.4;       ///< > 0; how strongly γ answers to a deviation
  double trend_gain = 10;  ///< ≥ 0; how strongly it answers to a change
  double smoothing = 0.5;  ///< in [0, 1); the weight of the past in the measured value
  int64_t every = 50;      ///< ≥ 1 steps from one adjustment to the next
};

}  // namespace deq::lab
