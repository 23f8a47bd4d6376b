#pragma once

#include <torch/types.h>

#include <memory>

#include "deq/lab/settings/segmentation.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// The class of every pixel of an image.
class SegmentationTask : public Task {
 public:
  explicit SegmentationTask(const SegmentationConfig& config, torch::Device device = torch::kCPU);
  ~SegmentationTask() override;

  torch::nn::Module& model() override;
  std::shared_ptr<const BatchSource> training_batches(const Shard& shard,
                                                      OnUnreadable on_unreadable) override;
  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override;
  /// Mean IoU, pixel accuracy and loss; every rank takes its share of the images.
  Metrics evaluate(const EquilibriumPlan& how, World& world) override;
  /// ρ and ‖J‖_F of a few validation images.
  Metrics stability(const EquilibriumPlan& how) override;
  Goal goal() const override { return {.metric = "mean_iou", .lower_is_better = false}; }
  int64_t validation_samples() const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The experiment of a configuration that has been read already.
Experiment experiment_from(const SegmentationConfig& config);

}  // namespace deq::lab
