#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deq {

/// Why a solve stopped. In a batch, the report's own status is the worst of its samples'.
enum class Status {
  Converged,
  UserStopped,
  MaxEvaluations,
  Stagnated,
  Diverged,
  NonFinite,
  NotRun,  ///< the default: nothing was solved
};

std::string_view status_name(Status status);

/// One line that says what to try.
std::string_view advice(Status status);

/// What one observed iterate looked like: the means and maxima are over the samples still active
/// when it was observed. With NormScope::WholeBatch every figure is that of the whole batch.
struct TracePoint {
  int64_t evaluations = 0;  ///< spent so far, this one included
  int64_t active = 0;       ///< samples not yet frozen before this observation
  double mean_absolute = 0, max_absolute = 0;
  double mean_relative = 0, max_relative = 0;
};

/// What happened to one sample.
struct SampleReport {
  Status status = Status::NotRun;
  int64_t evaluations = 0;  ///< spent when it stopped
  double absolute = 0;      ///< ‖f(z) − z‖ of the iterate returned
  double relative = 0;      ///< ‖f(z) − z‖ / ‖f(z)‖ of the iterate returned
};

/// Everything a solve says about itself. Residuals are those of the iterate returned, and the trace
/// holds what happened: one point per observed iterate, never padded.
struct Report {
  Status status = Status::NotRun;
  int64_t evaluations = 0;  ///< of f, trial points and probes included
  std::vector<SampleReport> samples;
  std::vector<TracePoint> trace;

  // Rejections by cause, counted per sample.
  int64_t restarts = 0;         ///< histories thrown away
  int64_t ridge_raises = 0;     ///< ill-conditioned small systems solved with a larger ridge
  int64_t skipped_updates = 0;  ///< secant updates whose denominator vanished
  int64_t step_rejections = 0;  ///< trial steps shortened by a line search
  int64_t fallbacks = 0;        ///< gradients of Shine that were replaced by the Jacobian-free one

  /// Counts so many evaluations more, which were made before the solve.
  void shift_evaluations(int64_t by);

  /// Appends a solve that went on from the states that this one returned.
  void append(const Report& next);

  bool converged() const { return status == Status::Converged; }
  int64_t count(Status wanted) const;
  double mean_relative() const;
  double max_relative() const;
  double max_absolute() const;
  /// The q-quantile (0 ≤ q ≤ 1) of the samples' relative residuals.
  double relative_quantile(double q) const;
  /// One line: status, cost, residual, and advice when it did not converge.
  std::string brief() const;
};

}  // namespace deq
