#include "deq/lab/tasks/vision.h"

#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/require.h"
#include "core/rng.h"
#include "deq/core/interruption.h"
#include "deq/lab/base/errors.h"
#include "lab/networks/image_classifier.h"
#include "lab/tasks/image_sets.h"
#include "lab/tasks/make_experiment.h"
#include "lab/tasks/stability.h"
#include "lab/train/rank_sum.h"

namespace deq::lab {
namespace {

/// Sums over validation samples, in a row so that one reduction serves them all.
struct ImageTally {
  enum Name { kSamples, kCorrect, kInTopFive, kLoss, kEvaluations, kBatches, kCount };
  std::array<double, kCount> sums{};
  std::vector<Report> reports;

  void add(const ImageScores& scores, const torch::Tensor& labels) {
    const auto wide = scores.logits.to(torch::kFloat32);
    const int64_t kept = std::min<int64_t>(5, wide.size(1));
    const auto hits = std::get<1>(wide.topk(kept, 1)).eq(labels.unsqueeze(1));
    sums[kSamples] += static_cast<double>(labels.size(0));
    sums[kCorrect] += hits.select(1, 0).sum().item<double>();
    sums[kInTopFive] += hits.sum().item<double>();
    sums[kLoss] +=
        torch::nn::functional::cross_entropy(
            wide, labels, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
            .item<double>();
    ++sums[kBatches];
    for (const auto& equilibrium : scores.equilibria) {
      sums[kEvaluations] += static_cast<double>(equilibrium.report.evaluations);
      reports.push_back(equilibrium.report);
    }
  }
};

}  // namespace

struct VisionTask::Parts {
  VisionConfig config;
  torch::Device device;
  ImageSets sets;
  ImageClassifier classifier;
};

VisionTask::VisionTask(const VisionConfig& config, torch::Device device) {
  parts_ = std::make_unique<Parts>(Parts{.config = config,
                                         .device = device,
                                         .sets = open_image_sets(config, device),
                                         .classifier = ImageClassifier(config, device)});
  const auto found = static_cast<int64_t>(parts_->sets.classes.size());
  const auto expected = parts_->classifier.classes();
  require<UsageError>(found == expected, "{} holds {} classes, but model.classes = {}",
                      config.data.path, found, expected);
}

VisionTask::~VisionTask() = default;

torch::nn::Module& VisionTask::model() {
  return parts_->classifier.module();
}

std::shared_ptr<const BatchSource> VisionTask::training_batches(const Shard& shard,
                                                                OnUnreadable on_unreadable) {
  return parts_->sets.training(shard, on_unreadable);
}

TaskPass VisionTask::forward(const Batch& batch, const EquilibriumPlan& how) {
  auto scores = parts_->classifier.scores(batch.tensors[0], how);
  return {.loss = training_loss(scores.logits, batch.tensors[1], parts_->config),
          .equilibria = std::move(scores.equilibria)};
}

Metrics VisionTask::evaluate(const EquilibriumPlan& how, World& world) {
  const auto& source = *parts_->sets.validation;
  ImageTally tally;
  for (int64_t index = world.rank(); index < source.batches(); index += world.size()) {
    check_interruption();  // an explicit network has no solve that would
    const auto batch =
        source.batch(0, index).to(parts_->device, storage_type(parts_->config.precision));
    tally.add(parts_->classifier.scores(batch.tensors[0], how), batch.tensors[1]);
  }
  sum_over_ranks(tally.sums, world, parts_->device);
  const auto mean = [&tally](ImageTally::Name name) {
    return tally.sums[name] / tally.sums[ImageTally::kSamples];
  };
  Metrics metrics{{"loss", mean(ImageTally::kLoss)},
                  {"accuracy", 100 * mean(ImageTally::kCorrect)},
                  {"top5", 100 * mean(ImageTally::kInTopFive)}};
  if (tally.sums[ImageTally::kEvaluations] > 0) {
    metrics.emplace_back("nfe_forward",
                         tally.sums[ImageTally::kEvaluations] / tally.sums[ImageTally::kBatches]);
  }
  append(metrics, residual_metrics(tally.reports));
  return metrics;
}

Metrics VisionTask::stability(const EquilibriumPlan& how) {
  const auto batch =
      parts_->sets.drawn->batch(0, 0).to(parts_->device, storage_type(parts_->config.precision));
  return stability_metrics(model(), parts_->config.seed, 1, how.options().forward, [&](int64_t) {
    return parts_->classifier.scores(batch.tensors[0], how).equilibria;
  });
}

int64_t VisionTask::validation_samples() const {
  return parts_->sets.validation_samples;
}

std::vector<std::string> VisionTask::warnings() const {
  return parts_->sets.warnings;
}

std::vector<std::string> VisionTask::classes() const {
  return parts_->sets.classes;
}

Experiment experiment_from(const VisionConfig& config) {
  return make_experiment<VisionTask>("vision", config);
}

}  // namespace deq::lab
