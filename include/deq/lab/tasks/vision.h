#pragma once

#include <torch/types.h>

#include <memory>

#include "deq/lab/settings/vision.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// Image classification (the paper's §5.3).
class VisionTask : public Task {
 public:
  explicit VisionTask(const VisionConfig& config, torch::Device device = torch::kCPU);
  ~VisionTask() override;

  torch::nn::Module& model() override;
  std::shared_ptr<const BatchSource> training_batches(const Shard& shard,
                                                      OnUnreadable on_unreadable) override;
  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override;
  /// Accuracy, top-5 accuracy and loss; every rank takes its share of the batches.
  Metrics evaluate(const EquilibriumPlan& how, World& world) override;
  /// ρ and ‖J‖_F of a few validation images.
  Metrics stability(const EquilibriumPlan& how) override;
  Goal goal() const override { return {.metric = "accuracy", .lower_is_better = false}; }
  int64_t validation_samples() const override;
  /// Of images that were left out.
  std::vector<std::string> warnings() const override;
  std::vector<std::string> classes() const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The experiment of a configuration that has been read already.
Experiment experiment_from(const VisionConfig& config);

}  // namespace deq::lab
