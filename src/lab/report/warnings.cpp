#include "lab/report/warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace deq::lab {
namespace {

constexpr double kLargeResidual = 0.01;
constexpr double kLargeAdjointResidual = 0.1;
// Far beyond what a model has that learns slowly or is solved with a small budget.
constexpr double kSenselessRho = 100;
constexpr double kSenselessGrowth = 100;
constexpr double kNothingSolved = 0.9;
constexpr double kMostSamples = 0.5;

/// One quantity over a run, as far as its lines have it.
struct Course {
  double first = 0;
  double last = 0;
  double largest = 0;
  double last_positive_step = 0;
};

Course course(const std::vector<Metrics>& lines, const std::string& split,
              const std::string& name) {
  Course result;
  bool seen = false;
  for (const auto& line : lines) {
    const double value = number(line, name);
    if (text(line, "split") != split || !(value == value)) continue;
    if (!seen) result.first = value;
    seen = true;
    result.last = value;
    result.largest = std::max(result.largest, value);
    if (value > 0) result.last_positive_step = number(line, "step");
  }
  return result;
}

/// Half a sentence where the numbers of the end are those of no model; empty otherwise.
std::string sign_of_a_lost_model(const std::vector<Metrics>& lines) {
  const double rho = course(lines, "valid", "rho").last;
  if (rho > kSenselessRho) return fmt::format("ρ was {:.2g} at the last validation", rho);
  const auto loss = course(lines, "train", "loss");
  if (loss.first > 0 && loss.last > kSenselessGrowth * loss.first) {
    return fmt::format("its loss grew from {:.3g} to {:.3g}", loss.first, loss.last);
  }
  const double residual = course(lines, "valid", "residual").last;
  const double failed = course(lines, "train", "stopped.diverged").last +
                        course(lines, "train", "stopped.non_finite").last;
  if (residual > kNothingSolved && failed > kMostSamples) {
    return fmt::format("its solves find no equilibrium, the relative residual is {:.2g}", residual);
  }
  return "";
}

/// Whether the model has an equilibrium: only then is a residual measured.
bool solves(const std::vector<Metrics>& lines) {
  return std::ranges::any_of(
      lines, [](const Metrics& line) { return std::isfinite(number(line, "residual")); });
}

}  // namespace

std::vector<std::string> warnings_about(const std::vector<Metrics>& lines, const Recipe& recipe) {
  std::vector<std::string> warnings;
  const auto lost = sign_of_a_lost_model(lines);
  if (!lost.empty()) {
    warnings.push_back(fmt::format(
        "This model means nothing any more: {}. Train it anew with a lower train.lr, or with "
        "train.clip_norm.",
        lost));
  }
  const double last_step = lines.empty() ? 0 : number(lines.back(), "step");
  const auto unrolled = recipe.train.pretrain.steps;
  if (last_step > 0 && last_step <= static_cast<double>(unrolled) && solves(lines)) {
    warnings.push_back(fmt::format(
        "The run ended at step {:.0f}, within its pretraining of {} steps: it was never trained at "
        "its equilibrium; train it for longer, or lower train.pretrain.steps.",
        last_step, unrolled));
  }
  if (lost.empty() && course(lines, "valid", "residual").last > kLargeResidual) {
    warnings.emplace_back(
        "At its training budget this model's mean relative residual is above 1%: raise "
        "jacobian.gamma, use Broyden, or raise solver.forward.max_evals.");
  }
  if (const double rho = course(lines, "valid", "rho").last; lost.empty() && rho >= 1) {
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

}  // namespace deq::lab
