#pragma once

#include <string>
#include <utility>
#include <vector>

#include "deq/core/report.h"
#include "deq/lab/io/json_lines.h"

namespace deq::lab {

/// Named measurements in the order they are written. docs/metrics.md lists the names.
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

/// The number behind a name, or NaN where it was not measured.
double number(const Metrics& metrics, const std::string& name);

/// The text behind a name, or nothing.
std::string text(const Metrics& metrics, const std::string& name);

/// Adds `more` at the end.
void append(Metrics& metrics, const Metrics& more);

/// The relative residuals of a solve, one after each evaluation: the mean over the samples that it
/// had not stopped yet.
std::vector<double> residual_trace(const Report& report);

/// `residual` and its quantiles, of these solves' samples together.
Metrics residual_metrics(const std::vector<Report>& reports);

}  // namespace deq::lab
