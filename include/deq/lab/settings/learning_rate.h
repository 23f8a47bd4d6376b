#pragma once

#include <cstdint>
#include <variant>

namespace deq::lab {

struct ConstantRate {};

/// A half cosine from the peak down to `final_lr`.
struct CosineRate {
  enum class Origin {
    Warmup,  ///< it begins where the warm-up ends: the rate has no jump
    Start    ///< it is counted from step 0, as in the paper's code: after the warm-up the rate
             ///< drops to where the cosine has meanwhile come
  };
  double final_lr = 0;  ///< ≥ 0
  Origin origin = Origin::Warmup;
};

/// Times `factor` every `every` steps.
struct StepRate {
  int64_t every = 1000;  ///< ≥ 1
  double factor = 0.1;   ///< in (0, 1]
};

/// How the learning rate depends on the training step: linear up to its peak, then a shape.
struct LearningRateSchedule {
  int64_t warmup_steps = 0;  ///< ≥ 0
  std::variant<CosineRate, ConstantRate, StepRate> shape = CosineRate{};

  /// The rate of step 0 ≤ step < steps.
  double at(int64_t step, int64_t steps, double peak) const;
};

}  // namespace deq::lab
