#include "lab/train/gamma_controller.h"

#include <algorithm>
#include <cmath>

namespace deq::lab {
namespace {

constexpr double kLargestChange = 4;
constexpr double kTiny = 1e-12;  // a residual may be exactly 0

}  // namespace

GammaController::GammaController(const GammaControl& options, double start)
    : options_(options), gamma_(active() ? std::clamp(start, options.min, options.max) : start) {}

void GammaController::adjust(double measured) {
  if (!std::isfinite(measured)) measured = 2 * options_.target;
  const double value = std::log(std::max(measured, kTiny));
  const double past = smoothed_ ? std::log(std::max(*smoothed_, kTiny)) : value;
  const double smooth = options_.smoothing * past + (1 - options_.smoothing) * value;
  smoothed_ = std::exp(smooth);
  const double error = smooth - std::log(options_.target), trend = smooth - past;
  const double change = std::clamp(options_.gain * error + options_.trend_gain * trend,
                                   -std::log(kLargestChange), std::log(kLargestChange));
  gamma_ = std::clamp(gamma_ * std::exp(change), options_.min, options_.max);
}

void GammaController::restore(double gamma, std::optional<double> smoothed) {
  gamma_ = gamma;
  smoothed_ = smoothed;
}

}  // namespace deq::lab
