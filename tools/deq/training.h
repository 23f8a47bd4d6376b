#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "deq/lab/runs/metrics.h"
#include "deq/lab/tasks/experiment.h"

namespace deq::lab::cli {

enum class Start { New, Resumed };

struct TrainingJob {
  Experiment experiment{};
  std::filesystem::path folder{};
  Start start = Start::New;
  std::string device = "cpu";
  std::chrono::seconds timeout{600};  ///< of every wait for other processes
  bool quiet = false;
  int64_t tensor_parallel = 1;  ///< processes that hold the model in parts together
  std::string trace{};          ///< the file for a trace of some steps; empty: none
  bool data_has_moved = false;  ///< a resumed run's: its config.toml is to say so
  std::string how_to_go_on{};   ///< after an interruption; empty: with deq train --resume
};

struct TrainingResult {
  Metrics last;         ///< the last evaluation
  bool is_main = true;  ///< false in the processes that only help
};

/// Throws UsageError where the folder of the data is missing.
void require_data(const Experiment& experiment);

/// Throws UsageError unless this many processes can share the model as the job wants it, and a
/// step's batch evenly.
void require_equal_shares(const TrainingJob& job, int64_t processes);

/// Trains in the job's folder, which is new or to be resumed, in as many processes as a launcher
/// has started. Prints one line per evaluation and a progress bar on standard error unless quiet. A
/// resumed run that has nothing left to do says so. The caller has an Interruption, and keeps it
/// until what it makes of the result is written; an interrupted training says how to go on and
/// throws ExitStatus.
TrainingResult train(const TrainingJob& job);

}  // namespace deq::lab::cli
