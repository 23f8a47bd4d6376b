#include "deq/lab/tasks/segmentation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/mask_folder.h"
#include "deq/models/mdeq/segmentation.h"
#include "lab/base/misuse.h"
#include "lab/base/random_streams.h"
#include "lab/runs/model_state.h"
#include "lab/tasks/confusion_matrix.h"
#include "lab/tasks/make_experiment.h"
#include "lab/tasks/pixel_loss.h"
#include "lab/tasks/stability.h"
#include "lab/train/rank_sum.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

MaskTransform masked_transform_of(const SegmentationData& data, bool training) {
  MaskTransform transform{.crop = MaskTransform::Crop::Random,
                          .height = data.crop_height,
                          .width = data.crop_width,
                          .min_scale = data.min_scale,
                          .max_scale = data.max_scale};
  if (training && !data.augment) transform.crop = MaskTransform::Crop::Centre;
  if (!training) {
    transform.crop = data.valid_crop ? MaskTransform::Crop::Centre : MaskTransform::Crop::None;
  }
  return transform;
}

std::shared_ptr<const MaskFolder> open_folder(const SegmentationConfig& config, bool training) {
  const auto& data = config.data;
  const auto names = training ? std::vector<std::string>{"train"}
                              : std::vector<std::string>{"test", "val", "valid"};
  for (const auto& name : names) {
    if (!fs::is_directory(fs::path(data.path) / name)) continue;
    return std::make_shared<MaskFolder>(fs::path(data.path) / name, config.model.mdeq.classes,
                                        masked_transform_of(data, training));
  }
  throw UsageError(fmt::format("data.path = \"{}\": there is no folder {} in it", data.path,
                               training ? "train/" : "test/ or val/ or valid/"));
}

/// A batch size that leaves no image over.
Shard segmentation_shard(int64_t samples, int64_t most) {
  int64_t size = std::min(samples, most);
  while (samples % size != 0) --size;
  return {.batch_size = size, .shuffle = false};
}

Shard drawn_scenes(int64_t samples, int64_t most, int64_t seed) {
  auto shard = segmentation_shard(samples, most);
  shard.shuffle = true;
  shard.seed = random_key(seed, RandomStream::StabilitySamples);
  return shard;
}

/// Sums over validation images, in a row so that one reduction serves them all.
struct PixelTally {
  enum Name { kLoss, kWeight, kEvaluations, kBatches, kCount };
  std::array<double, kCount> sums{};
  ConfusionMatrix confusion;
  std::vector<Report> reports;

  void sum(World& world, torch::Device device) {
    sum_over_ranks(sums, world, device);
    sum_over_ranks(confusion.counts(), world, device);
  }
};

}  // namespace

struct SegmentationTask::Parts {
  Parts(const SegmentationConfig& chosen, torch::Device where)
      : config(chosen),
        device(where),
        training(open_folder(chosen, true)),
        validation(open_folder(chosen, false)),
        validation_batches(validation,
                           segmentation_shard(validation->size(), chosen.data.valid_batch_size),
                           chosen.train.loader.unreadable),
        drawn_batches(validation,
                      drawn_scenes(validation->size(), chosen.data.valid_batch_size, chosen.seed),
                      chosen.train.loader.unreadable),
        network(refusals_as_misuse([&chosen] {
          return models::MdeqSegmenter(
              chosen.model, random_stream(chosen.seed, RandomStream::SegmentationWeights));
        })) {
    const auto type = storage_type(config.precision);
    move_model(*network, device, type);
    const auto& weights = config.loss.class_weights;
    if (weights.empty()) return;
    require<UsageError>(
        static_cast<int64_t>(weights.size()) == config.model.mdeq.classes,
        "loss.class_weights has {} entries, must have one for each of the {} classes",
        weights.size(), config.model.mdeq.classes);
    class_weights = torch::tensor(weights, torch::kFloat64).to(device, type);
  }

  Batch of(const DatasetBatches& batches, int64_t index) const {
    return batches.batch(0, index).to(device, storage_type(config.precision));
  }

  SegmentationConfig config;
  torch::Device device;
  std::shared_ptr<const MaskFolder> training, validation;
  DatasetBatches validation_batches;
  DatasetBatches drawn_batches;  // the same images in an order that is drawn
  models::MdeqSegmenter network;
  torch::Tensor class_weights;  // undefined where all count the same
};

SegmentationTask::SegmentationTask(const SegmentationConfig& config, torch::Device device)
    : parts_(std::make_unique<Parts>(config, device)) {}

SegmentationTask::~SegmentationTask() = default;

torch::nn::Module& SegmentationTask::model() {
  return *parts_->network;
}

std::shared_ptr<const BatchSource> SegmentationTask::training_batches(const Shard& shard,
                                                                      OnUnreadable on_unreadable) {
  return std::make_shared<DatasetBatches>(parts_->training, shard, on_unreadable);
}

TaskPass SegmentationTask::forward(const Batch& batch, const EquilibriumPlan& how) {
  auto output = parts_->network->forward(batch.tensors[0], how);
  return {.loss = pixel_loss(output.logits, batch.tensors[1], parts_->class_weights).mean(),
          .equilibria = {std::move(output.equilibrium)}};
}

Metrics SegmentationTask::evaluate(const EquilibriumPlan& how, World& world) {
  PixelTally tally{.confusion = ConfusionMatrix(parts_->config.model.mdeq.classes), .reports = {}};
  const auto batches = parts_->validation_batches.batches();
  for (int64_t index = world.rank(); index < batches; index += world.size()) {
    const auto batch = parts_->of(parts_->validation_batches, index);
    const auto output = parts_->network->forward(batch.tensors[0], how);
    const auto loss = pixel_loss(output.logits, batch.tensors[1], parts_->class_weights);
    tally.sums[PixelTally::kLoss] += loss.sum.item<double>();
    tally.sums[PixelTally::kWeight] += loss.weight.item<double>();
    tally.sums[PixelTally::kEvaluations] +=
        static_cast<double>(output.equilibrium.report.evaluations);
    ++tally.sums[PixelTally::kBatches];
    tally.confusion.add(output.logits.argmax(1), batch.tensors[1]);
    tally.reports.push_back(output.equilibrium.report);
  }
  tally.sum(world, parts_->device);
  Metrics metrics{
      {"loss", tally.sums[PixelTally::kLoss] / tally.sums[PixelTally::kWeight]},
      {"mean_iou", 100 * tally.confusion.mean_iou()},
      {"pixel_accuracy", 100 * tally.confusion.pixel_accuracy()},
      {"nfe_forward", tally.sums[PixelTally::kEvaluations] / tally.sums[PixelTally::kBatches]}};
  append(metrics, residual_metrics(tally.reports));
  return metrics;
}

Metrics SegmentationTask::stability(const EquilibriumPlan& how) {
  const auto& source = parts_->drawn_batches;
  const auto in_a_batch = parts_->validation->size() / source.batches();
  const auto parts = std::min(source.batches(), (kStabilitySamples + in_a_batch - 1) / in_a_batch);
  return stability_metrics(
      model(), parts_->config.seed, parts, how.options().forward, [&](int64_t part) {
        return std::vector{
            parts_->network->forward(parts_->of(source, part).tensors[0], how).equilibrium};
      });
}

int64_t SegmentationTask::validation_samples() const {
  return parts_->validation->size();
}

Experiment experiment_from(const SegmentationConfig& config) {
  return make_experiment<SegmentationTask>("segmentation", config);
}

}  // namespace deq::lab
