#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "commands.h"
#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/train/precision.h"
#include "deq/train/run.h"
#include "output.h"
#include "run_arguments.h"
#include "train/memory.h"

namespace deq::cli {
namespace {

struct Arguments : RunArguments {
  std::vector<int64_t> budgets;
  bool json = false;
};

/// What a table has no room for; --json has all of it.
bool in_table(const std::string& name) {
  return !name.starts_with("residual_") && name != "jacobian_norm";
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

/// Evaluates a run and measures what that costs.
class Meter {
 public:
  Meter(const LoadedRun& run, torch::Device device)
      : task_(*run.task), world_(World::alone()), device_(device) {}

  Metrics evaluate(const EquilibriumPlan& how) {
    synchronise();
    const bool has_peak = reset_peak_memory(device_);
    const auto begin = std::chrono::steady_clock::now();
    auto metrics = task_.evaluate(how, *world_);
    synchronise();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto samples = static_cast<double>(task_.validation_samples());
    Metrics cost{{"seconds", seconds}};
    if (samples > 0) cost.emplace_back(task_.sample_name() + "_per_s", samples / seconds);
    if (has_peak) cost.emplace_back("peak_memory_mib", peak_memory_mib(device_));
    append(metrics, cost);
    return metrics;
  }

  Metrics evaluate_with_stability(const EquilibriumPlan& how) {
    auto metrics = evaluate(how);
    append(metrics, task_.stability(how));
    return metrics;
  }

 private:
  void synchronise() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  Task& task_;
  std::shared_ptr<World> world_;
  torch::Device device_;
};

/// One row a budget: how good the model is, and what it costs, when its solver is stopped early.
std::vector<Metrics> sweep(const std::vector<int64_t>& budgets, const LoadedRun& run,
                           torch::Device device) {
  Meter meter(run, device);
  const auto options = evaluation_options(run.experiment.recipe);
  const auto within = [&options](int64_t budget) {
    auto hurried = options;
    hurried.forward = with_max_evals(options.forward, budget);
    return hurried;
  };
  // The first pass pays for kernels that are chosen and memory that is claimed once.
  const auto first = meter.evaluate(within(*std::min_element(budgets.begin(), budgets.end())));
  if (!std::isfinite(number(first, "nfe_forward"))) {
    std::cerr << "deq: this model has no equilibrium to stop early, one row serves every budget\n";
    return {meter.evaluate_with_stability(options)};
  }
  std::vector<Metrics> rows;
  for (const int64_t budget : budgets) {
    rows.push_back({{"budget", budget}});
    append(rows.back(), meter.evaluate_with_stability(within(budget)));
  }
  return rows;
}

void print_json(Metrics metrics, const LoadedRun& run) {
  metrics.insert(metrics.begin(), {"split", run.task->evaluated_split()});
  std::cout << to_json(metrics) << '\n';
}

void run(const Arguments& arguments) {
  const auto device = usable_device(arguments.device);
  const auto run = load_run(arguments.run, device, arguments.which(), arguments.overrides);
  tell(run.warnings);
  run.task->model().eval();
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(run.experiment.recipe.precision, device);
  if (!arguments.budgets.empty()) {
    const auto rows = sweep(arguments.budgets, run, device);
    if (!arguments.json) return print_table(rows);
    for (const auto& row : rows) print_json(row, run);
    return;
  }
  const auto how = evaluation_options(run.experiment.recipe);
  auto metrics = run.task->evaluate(how, *World::alone());
  append(metrics, run.task->stability(how));
  append(metrics, run.task->closing());
  if (arguments.json) return print_json(metrics, run);
  for (const auto& [name, value] : metrics) {
    std::cout << fmt::format("{:24} {:.6g}\n", name, number(metrics, name));
  }
}

}  // namespace

void add_eval(CLI::App& program) {
  const auto arguments = std::make_shared<Arguments>();
  auto* command = program.add_subcommand(
      "eval", "Evaluate a run on its validation set: error, stability, cost to converge.");
  add_run_arguments(*command, *arguments, "solver.forward.name=picard");
  command
      ->add_option("--budgets", arguments->budgets,
                   "a row for each of these forward budgets, with its time and peak memory, e.g. "
                   "--budgets 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_flag("--json", arguments->json,
                    "print one JSON object (one a budget) with the names of metrics.jsonl");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace deq::cli
