#include "report/warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "deq/train/metrics.h"

namespace deq {
namespace {

constexpr double kLargeResidual = 0.01;
constexpr double kLargeAdjointResidual = 0.1;

/// One quantity over a run, as far as its lines have it.
struct Course {
  double last = 0;
  double largest = 0;
  double last_positive_step = 0;
};

Course course(const std::vector<Metrics>& lines, const std::string& split,
              const std::string& name) {
  Course result;
  for (const auto& line : lines) {
    const double value = number(line, name);
    if (text(line, "split") != split || !(value == value)) continue;
    result.last = value;
    result.largest = std::max(result.largest, value);
    if (value > 0) result.last_positive_step = number(line, "step");
  }
  return result;
}

}  // namespace

std::vector<std::string> warnings_about(
    const std::vector<std::map<std::string, MetricValue>>& run) {
  std::vector<Metrics> lines;
  lines.reserve(run.size());
  for (const auto& line : run) lines.emplace_back(line.begin(), line.end());
  std::vector<std::string> warnings;
  if (course(lines, "valid", "residual").last > kLargeResidual) {
    warnings.emplace_back(
        "At its training budget this model's mean relative residual is above 1%: raise "
        "jacobian.gamma, use Broyden, or raise solver.forward.max_evals.");
  }
  if (const double rho = course(lines, "valid", "rho").last; rho >= 1) {
    warnings.push_back(
        fmt::format("The spectral radius ρ was {:.3g} at the last validation; that is not wrong in "
                    "itself, but Picard fails and Anderson gets slow there: raise jacobian.gamma, "
                    "or use Broyden.",
                    rho));
  }
  if (const double residual = course(lines, "train", "adjoint_residual").last;
      residual > kLargeAdjointResidual) {
    warnings.push_back(
        fmt::format("The adjoint solves ended training with a relative residual of {:.2g}, so that "
                    "gradients were rough: use Broyden for solver.adjoint and give it a larger "
                    "max_evals.",
                    residual));
  }
  if (const auto share = course(lines, "train", "stopped.diverged"); share.largest > 0) {
    warnings.push_back(fmt::format(
        "Forward solves diverged, up to {:.2g}% of a line's samples and last at step {:.0f}: ρ is "
        "above 1 or the start is far away; raise jacobian.gamma, or use Broyden with line_search.",
        100 * share.largest, share.last_positive_step));
  }
  if (const auto share = course(lines, "train", "stopped.non_finite"); share.largest > 0) {
    warnings.push_back(fmt::format(
        "f gave values that are not finite, for up to {:.2g}% of a line's samples and last at step "
        "{:.0f}: look at the inputs and at grad_norm before it; lower train.lr, set "
        "train.clip_norm.",
        100 * share.largest, share.last_positive_step));
  }
  if (const auto skipped = course(lines, "train", "skipped_steps"); skipped.largest > 0) {
    warnings.push_back(fmt::format(
        "Steps skipped because their loss or gradient was not finite: {:.0f}, returns to a "
        "checkpoint: {:.0f}; lower train.lr, set train.clip_norm.",
        skipped.largest, course(lines, "train", "rollbacks").largest));
  }
  return warnings;
}

}  // namespace deq
