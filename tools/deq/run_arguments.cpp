#include "run_arguments.h"

#include <iostream>

namespace deq::lab::cli {

void add_run_arguments(CLI::App& command, RunArguments& arguments, const std::string& example) {
  command.add_option("RUN", arguments.run, "a run folder, as `deq train` makes them")->required();
  command
      .add_option("--set", arguments.overrides, "override a key of the run, e.g. --set " + example)
      ->allow_extra_args(false);
  command.add_option("--checkpoint", arguments.checkpoint, "newest or best")
      ->capture_default_str()
      ->check(CLI::IsMember({"newest", "best"}));
  command.add_option("--device", arguments.device, "cpu, cuda or cuda:N")->capture_default_str();
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) std::cerr << "deq: " << warning << '\n';
}

}  // namespace deq::lab::cli
