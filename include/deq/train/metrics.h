#pragma once

#include <string>
#include <utility>
#include <vector>

#include "deq/io/json_lines.h"

namespace deq {

/// Named measurements in the order they are written. docs/metrics.md lists the names.
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

/// The number behind a name, or NaN where it was not measured.
double number(const Metrics& metrics, const std::string& name);

}  // namespace deq
