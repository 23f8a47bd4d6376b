#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "commands.h"
#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/train/precision.h"
#include "deq/train/run.h"
#include "output.h"

namespace deq::cli {
namespace {

struct Arguments {
  std::string run, device = "cpu", checkpoint = "newest";
  std::vector<std::string> overrides;
  std::vector<int64_t> budgets;
  bool json = false;
};

void print_table(const std::vector<Metrics>& rows) {
  for (const auto& [name, value] : rows.front()) std::cout << fmt::format("{:>14}", name);
  std::cout << '\n';
  for (const auto& row : rows) {
    for (const auto& [name, value] : row) std::cout << fmt::format("{:>14.6g}", number(row, name));
    std::cout << '\n';
  }
}

/// One row a budget: how good the model is when its solver is stopped early.
void sweep(const Arguments& arguments, const LoadedRun& run, World& world) {
  std::vector<Metrics> rows;
  for (const int64_t budget : arguments.budgets) {
    rows.push_back({{"budget", budget}});
    auto options = evaluation_options(run.experiment.recipe);
    options.forward = with_max_evals(options.forward, budget);
    append(rows.back(), run.task->evaluate(options, world));
  }
  if (!arguments.json) return print_table(rows);
  for (auto& row : rows) {
    row.insert(row.begin(), {"split", "valid"});
    std::cout << to_json(row) << '\n';
  }
}

void run(const Arguments& arguments) {
  const auto device = usable_device(arguments.device);
  const auto run =
      load_run(arguments.run, device,
               arguments.checkpoint == "best" ? WhichCheckpoint::Best : WhichCheckpoint::Newest,
               arguments.overrides);
  for (const auto& warning : run.warnings) std::cerr << "deq: " << warning << '\n';
  const auto world = World::alone();
  run.task->model().eval();
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(run.experiment.recipe.precision, device);
  if (!arguments.budgets.empty()) return sweep(arguments, run, *world);
  auto metrics = run.task->evaluate(evaluation_options(run.experiment.recipe), *world);
  append(metrics, run.task->stability());
  append(metrics, run.task->closing());
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
      "eval", "Evaluate a run on its validation set: error, stability, cost to converge.");
  command->add_option("RUN", arguments->run, "a run folder, as `deq train` makes them")->required();
  command
      ->add_option("--budgets", arguments->budgets,
                   "a row for each of these forward budgets, e.g. --budgets 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--set", arguments->overrides,
                   "override a key of the run, e.g. --set solver.forward.name=picard")
      ->allow_extra_args(false);
  command->add_option("--checkpoint", arguments->checkpoint, "newest or best")
      ->capture_default_str()
      ->check(CLI::IsMember({"newest", "best"}));
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--json", arguments->json,
                    "print one JSON object (one a budget) with the names of metrics.jsonl");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace deq::cli
