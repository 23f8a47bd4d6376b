#pragma once

#include <map>
#include <string>
#include <vector>

#include "deq/io/json_lines.h"

namespace deq {

/// What the lines of a run's metrics.jsonl give cause to worry about: a sentence each, with the
/// advice of docs/stability.md.
std::vector<std::string> warnings_about(const std::vector<std::map<std::string, MetricValue>>& run);

}  // namespace deq
