#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deq/lab/settings/language.h"
#include "deq/lab/tasks/experiment.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// Language modelling on words (the paper's §5.2).
class LanguageTask : public Task {
 public:
  /// With a group, whose processes hold the model in parts, its network must be GPT-2.
  explicit LanguageTask(const LanguageConfig& config, torch::Device device = torch::kCPU,
                        std::shared_ptr<models::TensorParallel> group = {});
  ~LanguageTask() override;

  torch::nn::Module& model() override;
  const ModelParts* in_parts() const override;
  std::shared_ptr<const BatchSource> training_batches(const Shard& shard,
                                                      OnUnreadable on_unreadable) override;
  TaskPass forward(const Batch& batch, const EquilibriumPlan& how) override;
  /// The memory of all streams.
  std::map<std::string, torch::Tensor> carried(World& world) override;
  void carry_on(int64_t step, const std::map<std::string, torch::Tensor>& carried) override;
  /// Perplexity and loss in nats per word; every rank reads its share of the streams.
  Metrics evaluate(const EquilibriumPlan& how, World& world) override;
  /// ρ and ‖J‖_F of a few streams, with a memory.
  Metrics stability(const EquilibriumPlan& how) override;
  Goal goal() const override { return {.metric = "perplexity", .lower_is_better = true}; }
  int64_t validation_samples() const override;
  std::string sample_name() const override { return "words"; }
  std::string evaluated_split() const override;
  /// Of the corpus's cache.
  std::vector<std::string> warnings() const override;
  std::vector<std::pair<std::string, std::string>> tied() const override;
  /// The words.
  std::vector<std::string> classes() const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// The experiment of a configuration that has been read already.
Experiment experiment_from(const LanguageConfig& config);

}  // namespace deq::lab
