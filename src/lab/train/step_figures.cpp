#include "lab/train/step_figures.h"

#include <fmt/format.h>

#include <utility>

#include "lab/train/rank_sum.h"

namespace deq::lab {
namespace {

constexpr std::string_view kStopNames[] = {"converged", "user_stopped", "max_evaluations",
                                           "stagnated", "diverged",     "non_finite",
                                           "not_run"};
static_assert(std::size(kStopNames) == static_cast<size_t>(Status::NotRun) + 1);

double mean_evaluations(const Report& report) {
  double sum = 0;
  for (const auto& sample : report.samples) sum += static_cast<double>(sample.evaluations);
  return report.samples.empty() ? 0 : sum / static_cast<double>(report.samples.size());
}

}  // namespace

void StepFigures::add(const TaskPass& pass, double weight) {
  const double share =
      pass.equilibria.empty() ? 0 : weight / static_cast<double>(pass.equilibria.size());
  for (const auto& equilibrium : pass.equilibria) {
    const auto& forward = equilibrium.report;
    const auto& adjoint = equilibrium.adjoint();
    // The evaluations of all layers add up; the other figures are means over them.
    values_[kForward] += weight * static_cast<double>(forward.evaluations);
    values_[kAdjoint] += weight * static_cast<double>(adjoint.evaluations);
    values_[kPerSample] += weight * mean_evaluations(forward);
    values_[kResidual] += share * forward.mean_relative();
    if (!adjoint.samples.empty()) {
      values_[kAdjointResidual] += share * adjoint.mean_relative();
      values_[kAdjointMeasured] += share;
    }
    const double sample = share / static_cast<double>(forward.samples.size());
    for (const auto& one : forward.samples) {
      values_[kStops + static_cast<size_t>(one.status)] += sample;
    }
  }
}

void StepFigures::reduce(World& world, torch::Device device) {
  sum_over_ranks(values_, world, device);
  for (double& value : values_) value /= static_cast<double>(world.size());
}

void StepWindow::add(const StepFigures& figures) {
  ++steps_;
  const bool solved = figures[StepFigures::kSolved] > 0;
  for (size_t i = 0; i < StepFigures::kCount; ++i) {
    sums_[i] += figures[i];
    if (solved) sums_of_solved_[i] += figures[i];
  }
}

Metrics StepWindow::means() const {
  const auto mean = [this](size_t name) { return sums_[name] / static_cast<double>(steps_); };
  const double solved_steps = sums_[StepFigures::kSolved];
  const auto& solves = solved_steps > 0 ? sums_of_solved_ : sums_;
  const auto mean_solve = [&](size_t name) {
    return solves[name] / (solved_steps > 0 ? solved_steps : static_cast<double>(steps_));
  };
  Metrics line{{"loss", mean(StepFigures::kLoss)}, {"task_loss", mean(StepFigures::kTaskLoss)}};
  if (sums_[StepFigures::kPenalised] > 0) {
    line.emplace_back("penalty", sums_[StepFigures::kPenalty] / sums_[StepFigures::kPenalised]);
  }
  for (const auto& [name, figure] : {std::pair("start_distance", StepFigures::kStartDistance),
                                     std::pair("step_distance", StepFigures::kStepDistance)}) {
    if (sums_[figure] > 0) line.emplace_back(name, sums_[figure] / sums_[StepFigures::kStarted]);
  }
  if (solves[StepFigures::kForward] > 0) {
    append(line, {{"nfe_forward", mean_solve(StepFigures::kForward)},
                  {"nfe_sample", mean_solve(StepFigures::kPerSample)},
                  {"nfe_adjoint", mean_solve(StepFigures::kAdjoint)},
                  {"residual", mean_solve(StepFigures::kResidual)}});
    if (solves[StepFigures::kAdjointMeasured] > 0) {
      line.emplace_back("adjoint_residual", solves[StepFigures::kAdjointResidual] /
                                                solves[StepFigures::kAdjointMeasured]);
    }
    for (size_t status = 0; status < std::size(kStopNames); ++status) {
      const double share = mean_solve(StepFigures::kStops + status);
      if (share > 0) line.emplace_back(fmt::format("stopped.{}", kStopNames[status]), share);
    }
  }
  if (sums_[StepFigures::kUnreadable] > 0) {
    line.emplace_back("unreadable_samples", sums_[StepFigures::kUnreadable]);
  }
  return line;
}

}  // namespace deq::lab
