#include "deq/lab/runs/metrics.h"

#include <cmath>
#include <limits>

namespace deq::lab {
namespace {

const MetricValue* find_metric(const Metrics& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace

double number(const Metrics& metrics, const std::string& name) {
  const auto* value = find_metric(metrics, name);
  if (value != nullptr) {
    if (const auto* real = std::get_if<double>(value)) return *real;
    if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string text(const Metrics& metrics, const std::string& name) {
  const auto* value = find_metric(metrics, name);
  const auto* held = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return held == nullptr ? "" : *held;
}

void append(Metrics& metrics, const Metrics& more) {
  metrics.insert(metrics.end(), more.begin(), more.end());
}

std::vector<double> residual_trace(const Report& report) {
  std::vector<double> trace(static_cast<size_t>(report.evaluations), std::nan(""));
  for (const auto& point : report.trace) {
    trace.at(static_cast<size_t>(point.evaluations - 1)) = point.mean_relative;
  }
  return trace;
}

Metrics residual_metrics(const std::vector<Report>& reports) {
  Report all;
  for (const auto& report : reports) {
    all.samples.insert(all.samples.end(), report.samples.begin(), report.samples.end());
  }
  if (all.samples.empty()) return {};
  return {{"residual", all.mean_relative()},
          {"residual_p50", all.relative_quantile(0.50)},
          {"residual_p90", all.relative_quantile(0.90)},
          {"residual_p99", all.relative_quantile(0.99)}};
}

}  // namespace deq::lab
