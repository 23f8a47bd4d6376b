#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "deq/lab/data/batches/loader.h"
#include "deq/lab/distributed/gradient_averager.h"
#include "deq/lab/settings/recipe.h"
#include "deq/lab/train/optimiser.h"
#include "deq/lab/train/task.h"
#include "lab/train/step_figures.h"
#include "lab/train/step_plan.h"

namespace deq::lab {

/// What a training step computes before the optimiser's turn: the batches of its parts, forward and
/// backward through the model, and gradients that are means over parts and ranks.
class StepPasses {
 public:
  /// All except the world must outlive it.
  StepPasses(Task& task, const Recipe& recipe, std::shared_ptr<World> world, Optimiser& optimiser);

  int64_t steps_per_epoch() const { return source_->batches() / shard_.parts; }

  /// Goes on with the batches of this step.
  void seek(int64_t step) { loader_.seek(step * shard_.parts); }

  /// Leaves the gradients in the parameters. The figures are those of this rank.
  StepFigures run(int64_t step, const StepPlan& plan);

  /// Of the last part's solves.
  const std::vector<Report>& last_reports() const { return last_reports_; }

 private:
  /// Statistics that layers keep, such as BatchNorm's, come from each rank's own samples. After
  /// every step they are the mean, so that it does not matter when somebody looks at them.
  void average_buffers();
  void backpropagate(int64_t step, const StepPlan& plan, int64_t part, StepFigures& figures);
  const EquilibriumPlan& ready(const EquilibriumOptions& how);
  torch::Tensor penalty_of(const TaskPass& pass, int64_t step, int64_t part) const;
  void seed_model(int64_t step, int64_t part);

  Task& task_;
  const Recipe& recipe_;
  std::shared_ptr<World> world_;
  Optimiser& optimiser_;
  torch::Device device_;
  Shard shard_;
  std::shared_ptr<const BatchSource> source_;
  Loader loader_;
  GradientAverager averager_;
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t, bool>, EquilibriumPlan> ready_;
  std::vector<Report> last_reports_;
};

}  // namespace deq::lab
