#pragma once

#include <string>

#include "deq/lab/tasks/experiment.h"

namespace deq::lab::cli {

/// Where the configuration says that the data lies; empty where the experiment makes its own.
std::string data_folder(const Experiment& experiment);

/// "DIR does not exist" or "DIR is no folder"; empty where it is one.
std::string fault_of_folder(const std::string& folder);

}  // namespace deq::lab::cli
