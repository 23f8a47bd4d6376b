#include "deq/lab/settings/learning_rate.h"

#include <cmath>
#include <numbers>

namespace deq::lab {
namespace {

double cosine(const CosineRate& shape, int64_t warmup, int64_t step, int64_t steps, double peak) {
  const int64_t origin = shape.origin == CosineRate::Origin::Warmup ? warmup : 0;
  const double progress = static_cast<double>(step - origin) / static_cast<double>(steps - origin);
  return shape.final_lr +
         0.5 * (peak - shape.final_lr) * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace

double LearningRateSchedule::at(int64_t step, int64_t steps, double peak) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  }
  if (const auto* half_wave = std::get_if<CosineRate>(&shape)) {
    return cosine(*half_wave, warmup_steps, step, steps, peak);
  }
  if (const auto* stairs = std::get_if<StepRate>(&shape)) {
    const int64_t falls = step / stairs->every;
    return peak * std::pow(stairs->factor, static_cast<double>(falls));
  }
  return peak;
}

}  // namespace deq::lab
