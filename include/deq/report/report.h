#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace deq {

/// One self-contained HTML page on these run folders, side by side. Reads each run's config.toml,
/// metrics.jsonl and final checkpoint; throws UsageError where one is no finished run.
std::string render_report(const std::vector<std::filesystem::path>& runs, const std::string& title);

}  // namespace deq
