#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "commands.h"
#include "deq/core/cuda.h"
#include "deq/train/run.h"
#include "output.h"

namespace deq::cli {
namespace {

struct Arguments {
  std::string run, device = "cpu";
  bool json = false;
};

void run(const Arguments& arguments) {
  const auto experiment = load_run(arguments.run, usable_device(arguments.device));
  auto metrics = experiment.evaluate_fully();
  if (arguments.json) {
    metrics.insert(metrics.begin(), {"split", "valid"});
    std::cout << to_json(metrics) << '\n';
    return;
  }
  for (const auto& [name, value] : metrics) {
    std::cout << fmt::format("{:24} {:.6g}\n", name, number(metrics, name));
  }
}

}  // namespace

void add_eval(CLI::App& program) {
  const auto arguments = std::make_shared<Arguments>();
  auto* command = program.add_subcommand(
      "eval", "Evaluate a finished run on its validation set: error, stability, cost to converge.");
  command->add_option("RUN", arguments->run, "a run folder, as `deq train` makes them")->required();
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--json", arguments->json,
                    "print one JSON object with the names of metrics.jsonl");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace deq::cli
