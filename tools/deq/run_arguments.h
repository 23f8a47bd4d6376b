#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "deq/lab/runs/run.h"

namespace deq::lab::cli {

/// What every command that uses a trained model takes.
struct RunArguments {
  std::string run, device = "cpu", checkpoint = "newest";
  std::vector<std::string> overrides;

  WhichCheckpoint which() const {
    return checkpoint == "best" ? WhichCheckpoint::Best : WhichCheckpoint::Newest;
  }
};

/// RUN, --set, --checkpoint and --device. `arguments` must live as long as the command.
void add_run_arguments(CLI::App& command, RunArguments& arguments, const std::string& example);

/// To stderr: checkpoints that were passed over, and why.
void print_warnings(const std::vector<std::string>& warnings);

}  // namespace deq::lab::cli
