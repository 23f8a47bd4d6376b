#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "deq/lab/io/json_lines.h"

// What a report's page holds of a run's metrics.jsonl.

namespace deq::lab {

using MetricLine = std::map<std::string, MetricValue>;

/// One array per name, null where a line of this split lacks it.
nlohmann::json metric_columns(const std::vector<MetricLine>& lines, const std::string& split);

/// The last that was validated of every number.
nlohmann::json last_validation(const std::vector<MetricLine>& lines);

/// JSON that can stand inside a <script> element.
std::string embeddable(const nlohmann::json& data);

}  // namespace deq::lab
