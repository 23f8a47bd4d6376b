#pragma once

#include <nlohmann/json.hpp>

#include "lab/report/html_report.h"

namespace deq::lab {

/// As report.js reads it; null where there is nothing.
nlohmann::json extras_data(const ReportExtras& extras);

}  // namespace deq::lab
