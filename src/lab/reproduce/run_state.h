#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "deq/lab/tasks/experiment.h"

namespace deq::lab::reproduce {

/// "jacobian.gamma" → "2.0", of an effective configuration as the library writes it.
std::map<std::string, std::string> flat_config(const std::string& toml);

/// What is left to do for a run.
enum class Need { Train, Resume, Nothing };

/// Looks into the folder. Throws UsageError, naming the first key, where it holds a run of another
/// configuration: nothing is ever overwritten. Where the data lies is no part of what a run is.
Need need_of(const std::filesystem::path& folder, const Experiment& wanted);

}  // namespace deq::lab::reproduce
