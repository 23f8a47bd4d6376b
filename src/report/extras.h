#pragma once

#include <nlohmann/json.hpp>

#include "deq/report/report.h"

namespace deq {

/// As report.js reads it; null where there is nothing.
nlohmann::json extras_data(const ReportExtras& extras);

}  // namespace deq
