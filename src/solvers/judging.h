#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "deq/core/report.h"
#include "deq/core/tolerance.h"
#include "kernels/common/host_device.h"

// How an iterate of one sample is judged: plain numbers, for host and device.

namespace deq {

/// What is known about one sample while it is solved.
struct JudgedSample {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  Status status = Status::NotRun;  // NotRun while it is active
  double absolute = kInfinity;     // of the current iterate
  double first = kInfinity;        // ‖g‖ at z₀
  double smallest = kInfinity;     // ‖g‖ seen
  double merit = kInfinity;        // of the current iterate; smaller is better
  double best_merit = kInfinity;
  double best_absolute = kInfinity, best_relative = kInfinity;
  double stagnation_mark = kInfinity;
  int64_t iterates_since_mark = 0;
  int64_t evaluations = 0;

  DEQ_HOST_DEVICE bool active() const { return status == Status::NotRun; }
  DEQ_HOST_DEVICE bool goes_back() const { return !active() && status != Status::Converged; }
};

struct JudgingRules {
  Tolerance tol{};
  Guards guards{};
  // Else the start is none, whatever its residual, unless that is 0: an adjoint of u = 0 would be
  // no gradient at all.
  bool start_is_candidate = true;
};

DEQ_HOST_DEVICE double residual_ratio(double numerator, double denominator) {
  return numerator == 0 ? 0 : numerator / denominator;
}

/// The quantity that ranks iterates: the residual in units of its tolerance.
DEQ_HOST_DEVICE double residual_merit(const Tolerance& tol, double absolute, double image) {
  const double threshold = tol.atol + tol.rtol * image;
  const double unit = tol.atol + tol.rtol > 0 ? threshold : image;
  const double value = residual_ratio(absolute, unit);
  return std::isfinite(value) ? value : std::numeric_limits<double>::infinity();
}

/// Updates a sample's figures and its status after the given number of evaluations; true when the
/// iterate, with ‖g‖ = absolute and ‖f‖ = image, is its best so far. One that is undecided is
/// neither non-finite nor diverged yet; one that is not new does not count towards stagnation.
DEQ_HOST_DEVICE bool judge(JudgedSample& sample, double absolute, double image, int64_t evaluations,
                           const JudgingRules& rules, bool undecided = false, bool is_new = true) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kStagnationFactor = 0.99;  // the best must fall below this share of itself
  const Tolerance& tol = rules.tol;
  const Guards& guards = rules.guards;
  const bool first = sample.first == kInfinity;
  const bool finite = std::isfinite(absolute) && std::isfinite(image);
  sample.evaluations = evaluations;
  sample.absolute = finite ? absolute : kInfinity;
  sample.merit = finite ? residual_merit(tol, absolute, image) : kInfinity;
  if (first) sample.first = sample.absolute;
  sample.smallest = std::min(sample.smallest, sample.absolute);
  const bool candidate = !first || rules.start_is_candidate || absolute == 0;
  const bool converged = candidate && finite && absolute <= tol.atol + tol.rtol * image;
  // Where f vanishes no relative residual exists: there the absolute one ranks.
  const bool smaller = sample.merit < sample.best_merit || (sample.merit == sample.best_merit &&
                                                            sample.absolute < sample.best_absolute);
  const bool better = candidate && smaller;
  if (better) {
    sample.best_merit = sample.merit;
    sample.best_absolute = absolute;
    sample.best_relative = residual_ratio(absolute, image);
  }
  if (sample.best_merit < kStagnationFactor * sample.stagnation_mark) {
    sample.stagnation_mark = sample.best_merit;
    sample.iterates_since_mark = 0;
  } else if (is_new && candidate) {
    ++sample.iterates_since_mark;
  }
  if (converged) {
    sample.status = Status::Converged;
  } else if (!undecided && !finite) {
    sample.status = Status::NonFinite;
  } else if (!undecided && absolute > guards.divergence_factor * sample.first) {
    sample.status = Status::Diverged;
  } else if (guards.stagnation_window > 0 &&
             sample.iterates_since_mark >= guards.stagnation_window) {
    sample.status = Status::Stagnated;
  }
  return better;
}

/// Takes an active sample's residuals into the point of an observation.
inline void add_to(TracePoint& point, double absolute, double relative) {
  point.mean_absolute += absolute / static_cast<double>(point.active);
  point.mean_relative += relative / static_cast<double>(point.active);
  point.max_absolute = std::fmax(point.max_absolute, absolute);
  point.max_relative = std::fmax(point.max_relative, relative);
}

/// The budget is spent: what every sample came to, and the worst of it.
void conclude(std::vector<JudgedSample>& samples, Report& report);

}  // namespace deq
