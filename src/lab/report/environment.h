#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace deq::lab {

/// What a program runs on: a name and a value each; what the system does not report is left out.
using Environment = std::vector<std::pair<std::string, std::string>>;

/// Of this process.
Environment this_environment();

/// environment.json in a run folder: what it is trained on, on a GPU that one too, and since when.
void write_environment(const std::filesystem::path& run, const std::string& device);

/// Empty where there is no such file.
Environment read_environment(const std::filesystem::path& run);

/// "2026-11-16T08:30:00Z".
std::string utc_now();

}  // namespace deq::lab
