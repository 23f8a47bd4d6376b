#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deq::lab {

/// Those that this process may run on.
int64_t usable_cores();

/// Starts `command` as `processes` ranks on this machine, with the variables that
/// rank_from_environment() reads, and waits for them. Cores are divided among them unless
/// OMP_NUM_THREADS is set. SIGINT and SIGTERM are passed on. When a rank fails, stderr says which
/// and how, and the others are given a few seconds to end by themselves before they are ended.
/// No rank outlives the caller. Returns 0, or the status of the first that failed: 128 + the signal
/// for one that a signal ended.
int launch_local(int64_t processes, const std::vector<std::string>& command);

}  // namespace deq::lab
