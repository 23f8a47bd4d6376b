#include "measured_evaluation.h"

#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <limits>

#include "deq/lab/settings/evaluation.h"
#include "deq/lab/trained/load_run.h"
#include "lab/train/memory.h"

namespace deq::lab::cli {
namespace {

/// As if they had not been measured; a table keeps their columns.
void forget_stability(Metrics& metrics) {
  for (auto& [name, value] : metrics) {
    const bool of_state = name == "rho" || name == "jacobian_norm" || name == "path_distance" ||
                          name.starts_with("training_");
    if (of_state) value = std::numeric_limits<double>::quiet_NaN();
  }
}

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

}  // namespace

Metrics evaluate_measured(const LoadedRun& run, torch::Device device) {
  return Meter(run, device).evaluate_with_stability(evaluation_options(run.experiment.recipe));
}

std::vector<Metrics> evaluate_budgets(const LoadedRun& run, torch::Device device,
                                      const std::vector<int64_t>& budgets) {
  Meter meter(run, device);
  const auto options = evaluation_options(run.experiment.recipe);
  // The first pass chooses kernels and claims memory, once.
  const auto first =
      meter.evaluate(within_budget(options, *std::min_element(budgets.begin(), budgets.end())));
  if (!std::isfinite(number(first, "nfe_forward"))) {
    std::cerr << "deq: this model has no equilibrium to stop early, one row serves every budget\n";
    return {meter.evaluate_with_stability(options)};
  }
  std::vector<Metrics> rows;
  for (const int64_t budget : budgets) {
    rows.push_back({{"budget", budget}});
    append(rows.back(), meter.evaluate_with_stability(within_budget(options, budget)));
    if (budget == 1) forget_stability(rows.back());  // J at the start says nothing
  }
  return rows;
}

}  // namespace deq::lab::cli
