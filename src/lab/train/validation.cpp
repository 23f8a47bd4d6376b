#include "lab/train/validation.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "deq/core/precision.h"
#include "deq/lab/settings/evaluation.h"

namespace deq::lab {
namespace {

/// Eval mode for a while.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& model) : model_(model) { model_.eval(); }
  ~EvaluationMode() { model_.train(); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  torch::nn::Module& model_;
};

}  // namespace

Validation::Validation(Task& task, const Recipe& recipe, std::shared_ptr<World> world,
                       std::shared_ptr<World> copies, torch::Device device)
    : task_(task),
      recipe_(recipe),
      world_(std::move(world)),
      copies_(std::move(copies)),
      device_(device) {}

Metrics Validation::measure(bool closing) {
  const EvaluationMode mode(task_.model());
  auto metrics = at_every_budget();
  append(metrics, stability());
  if (closing) append(metrics, task_.closing());
  return metrics;
}

Metrics Validation::at_every_budget() {
  const torch::NoGradGuard no_grad;
  const PrecisionScope precision(recipe_.precision, device_);
  const auto how = evaluation_options(recipe_);
  auto metrics = task_.evaluate(how, *copies_);
  const bool solves = std::isfinite(number(metrics, "nfe_forward"));
  for (const int64_t budget : recipe_.train.eval_budgets) {
    if (!solves) break;  // an explicit network has no budget
    const auto hurried = task_.evaluate(within_budget(how, budget), *copies_);
    for (const auto& name : {task_.goal().metric, std::string("residual")}) {
      metrics.emplace_back(fmt::format("{}@{}", name, budget), number(hurried, name));
    }
  }
  return metrics;
}

Metrics Validation::stability() {
  const PrecisionScope precision(recipe_.precision, device_);
  return task_.stability(evaluation_options(recipe_));
}

double Validation::spectral_radius() {
  const EvaluationMode mode(task_.model());
  return of_main(number(stability(), "rho"));
}

double Validation::of_main(double number) {
  if (world_->size() == 1) return number;
  const auto shared = torch::tensor(number, torch::TensorOptions(device_).dtype(torch::kFloat64));
  world_->broadcast(shared);
  return shared.item<double>();
}

}  // namespace deq::lab
