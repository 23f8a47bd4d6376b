#include "deq/core/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace deq {

std::string_view status_name(Status status) {
  switch (status) {
    case Status::Converged:
      return "converged";
    case Status::UserStopped:
      return "stopped by the caller";
    case Status::MaxEvaluations:
      return "out of evaluations";
    case Status::Stagnated:
      return "stagnated";
    case Status::Diverged:
      return "diverged";
    case Status::NonFinite:
      return "non-finite values";
    case Status::NotRun:
      return "not run";
  }
  return "unknown";
}

std::string_view advice(Status status) {
  switch (status) {
    case Status::Converged:
      return "nothing to do";
    case Status::UserStopped:
      return "the callback asked to stop; the best iterate so far is returned";
    case Status::MaxEvaluations:
      return "raise max_evals, loosen the tolerance, or regularise the Jacobian so that fewer "
             "evaluations suffice";
    case Status::Stagnated:
      return "the residual no longer falls: if it is small, the tolerance may be below what this "
             "precision resolves, so loosen it or use float64; if it is large, try another solver, "
             "and make samples that depend on each other one sample";
    case Status::Diverged:
      return "the iteration runs away: the spectral radius is likely above 1; try Broyden or "
             "NewtonKrylov, add damping, or regularise the Jacobian";
    case Status::NonFinite:
      return "f returned NaN or infinity: look at its inputs and parameters, or lower the "
             "learning rate";
    case Status::NotRun:
      return "no solve has been run";
  }
  return "";
}

void Report::shift_evaluations(int64_t by) {
  evaluations += by;
  for (auto& sample : samples) sample.evaluations += by;
  for (auto& point : trace) point.evaluations += by;
}

void Report::append(const Report& next) {
  const auto before = evaluations;
  status = next.status;
  evaluations += next.evaluations;
  for (size_t b = 0; b < samples.size(); ++b) {
    const auto spent = samples[b].evaluations;
    samples[b] = next.samples.at(b);
    samples[b].evaluations += spent;
  }
  for (auto point : next.trace) {
    point.evaluations += before;
    trace.push_back(point);
  }
  restarts += next.restarts;
  ridge_raises += next.ridge_raises;
  skipped_updates += next.skipped_updates;
  step_rejections += next.step_rejections;
  fallbacks += next.fallbacks;
}

int64_t Report::count(Status wanted) const {
  return std::count_if(samples.begin(), samples.end(),
                       [wanted](const SampleReport& s) { return s.status == wanted; });
}

double Report::mean_relative() const {
  const double sum =
      std::accumulate(samples.begin(), samples.end(), 0.0,
                      [](double a, const SampleReport& s) { return a + s.relative; });
  return samples.empty() ? 0.0 : sum / static_cast<double>(samples.size());
}

double Report::max_relative() const {
  double largest = 0;
  for (const auto& s : samples) largest = std::fmax(largest, s.relative);
  return largest;
}

double Report::max_absolute() const {
  double largest = 0;
  for (const auto& s : samples) largest = std::fmax(largest, s.absolute);
  return largest;
}

double Report::relative_quantile(double q) const {
  if (samples.empty()) return 0;
  std::vector<double> values;
  values.reserve(samples.size());
  for (const auto& s : samples) values.push_back(s.relative);
  const auto rank = static_cast<int64_t>(std::lround(q * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<size_t>(rank)];
}

std::string Report::brief() const {
  std::string line = fmt::format(
      "{} after {} evaluations, {}/{} samples converged, relative residual "
      "mean {:.2e}, max {:.2e}",
      status_name(status), evaluations, count(Status::Converged), samples.size(), mean_relative(),
      max_relative());
  if (restarts > 0) line += fmt::format(", {} restarts", restarts);
  if (ridge_raises > 0) line += fmt::format(", {} ridge raises", ridge_raises);
  if (skipped_updates > 0) line += fmt::format(", {} skipped updates", skipped_updates);
  if (step_rejections > 0) line += fmt::format(", {} shortened steps", step_rejections);
  if (fallbacks > 0) line += fmt::format(", {} fall-backs", fallbacks);
  if (!converged()) line += fmt::format("; {}", advice(status));
  return line;
}

}  // namespace deq
