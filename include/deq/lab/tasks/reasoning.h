#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <string>

#include "deq/lab/settings/reasoning.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// Puzzles and their answers. A training step is one segment: every row of the batch goes on with
/// its puzzle where the step before has left it, or with a new one where that is over.
class ReasoningTask : public Task {
 public:
  explicit ReasoningTask(const ReasoningConfig& config, torch::Device device = torch::kCPU);
  ~ReasoningTask() override;

  torch::nn::Module& model() override;
  std::shared_ptr<const BatchSource> training_batches(const Shard& shard,
                                                      OnUnreadable on_unreadable) override;
  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override;
  /// The puzzles that the rows are at, and their states.
  std::map<std::string, torch::Tensor> carried(World& world) override;
  void carry_on(int64_t step, const std::map<std::string, torch::Tensor>& carried) override;
  /// The share of puzzles that are right in every cell, and of cells; every rank has its share.
  Metrics evaluate(const EquilibriumPlan& how, World& world) override;
  /// ρ and ‖J‖_F of some puzzles.
  Metrics stability(const EquilibriumPlan& how) override;
  /// One validation puzzle on its way to the answer, as texts.
  Metrics closing() override;
  Goal goal() const override { return {.metric = "exact", .lower_is_better = false}; }
  int64_t validation_samples() const override;
  std::string sample_name() const override { return "puzzles"; }
  /// The kind of the puzzles, and their size.
  std::string sample_form() const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The experiment of a configuration that has been read already.
Experiment experiment_from(const ReasoningConfig& config);

}  // namespace deq::lab
