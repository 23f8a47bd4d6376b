#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/runs/metrics.h"

namespace deq::lab::cli {

/// One JSON object on one line; what is not finite is left out.
std::string to_json(const Metrics& metrics);

/// The same with a list "warnings" at its end.
std::string to_json(const Metrics& metrics, const std::vector<std::string>& warnings);

/// For people to read; what is not finite is a dash.
std::string as_text(const MetricValue& value);

/// "runs/NAME", or "runs/NAME-2", "runs/NAME-3", … where that exists.
std::filesystem::path free_run_folder(const std::string& name);

/// report.html on these runs, in `folder`. Returns its path.
std::filesystem::path write_report(const std::filesystem::path& folder,
                                   const std::vector<std::filesystem::path>& runs,
                                   const std::string& title);

}  // namespace deq::lab::cli
