#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "checks.h"
#include "commands.h"
#include "deq/core/error.h"
#include "deq/core/precision.h"
#include "deq/lab/runs/run.h"
#include "deq/lab/trained/load_run.h"
#include "lab/base/device.h"
#include "lab/report/warnings.h"
#include "measured_evaluation.h"
#include "output.h"
#include "run_arguments.h"

namespace deq::lab::cli {
namespace {

struct EvalArguments : RunArguments {
  std::vector<std::string> budgets;
  bool json = false;
};

/// What a table has no room for; --json has all of it.
bool in_table(const std::string& name) {
  return !name.starts_with("residual_") && !name.starts_with("training_") &&
         name != "jacobian_norm";
}

std::string as_cell(const std::string& name, double value) {
  if (!std::isfinite(value)) return "-";
  if (name == "accuracy" || name == "top5") return fmt::format("{:.2f}", value);
  if (name == "residual") return fmt::format("{:.2e}", value);
  if (name == "peak_memory_mib") return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

void print_table(const std::vector<Metrics>& rows) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const auto& [name, ignored] : rows.front()) {
    if (!in_table(name)) continue;
    std::vector<std::string> cells{name};
    for (const auto& row : rows) cells.push_back(as_cell(name, number(row, name)));
    size_t width = 0;
    for (const auto& cell : cells) width = std::max(width, cell.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      lines[i] += fmt::format("{}{:>{}}", lines[i].empty() ? "" : "  ", cells[i], width);
    }
  }
  for (const auto& line : lines) std::cout << line << '\n';
}

void print_json(Metrics metrics, const LoadedRun& run_eval) {
  metrics.insert(metrics.begin(), {"split", run_eval.task->evaluated_split()});
  std::cout << to_json(metrics) << '\n';
}

/// What a report would say had the run ended with this evaluation.
void warn_about(const LoadedRun& run_eval, const std::filesystem::path& folder, Metrics metrics) {
  auto lines = metrics_lines(folder);
  metrics.emplace_back("split", "valid");
  metrics.emplace_back("step", lines.empty() ? 0.0 : number(lines.back(), "step"));
  lines.push_back(std::move(metrics));
  print_warnings(warnings_about(lines, run_eval.experiment.recipe));
}

void run_eval(const EvalArguments& arguments) {
  const auto device = usable_device(arguments.device);
  const auto run_eval = load_run(arguments.run, device, arguments.which(), arguments.overrides);
  print_warnings(run_eval.warnings);
  run_eval.task->model().eval();
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(run_eval.experiment.recipe.precision, device);
  if (!arguments.budgets.empty()) {
    const auto rows = evaluate_budgets(run_eval, device, numbers_of(arguments.budgets));
    if (!arguments.json) return print_table(rows);
    for (const auto& row : rows) print_json(row, run_eval);
    return;
  }
  auto metrics = evaluate_measured(run_eval, device);
  append(metrics, run_eval.task->closing());
  warn_about(run_eval, arguments.run, metrics);
  if (arguments.json) return print_json(metrics, run_eval);
  for (const auto& [name, value] : metrics) {
    std::cout << fmt::format("{:24} {}\n", name, as_text(value));
  }
}

}  // namespace

void add_eval(CLI::App& program) {
  const auto arguments = std::make_shared<EvalArguments>();
  auto* command = program.add_subcommand(
      "eval", "Evaluate a run on its validation set: error, stability, cost to converge.");
  add_run_arguments(*command, *arguments, "solver.forward.name=picard");
  command
      ->add_option("--budgets", arguments->budgets,
                   "a row for each of these forward budgets, with its time and peak memory, e.g. "
                   "--budgets 1,2,4,8")
      ->check(positive_whole_numbers);
  command->add_flag("--json", arguments->json,
                    "print one JSON object (one per budget) with the names of metrics.jsonl");
  command->callback([arguments] { run_eval(*arguments); });
}

}  // namespace deq::lab::cli
