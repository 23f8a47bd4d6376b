#include "lab/tasks/image_sets.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "core/require.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/augmented_tensor_batches.h"
#include "deq/lab/data/images/cifar.h"
#include "deq/lab/data/images/image_folder.h"
#include "deq/lab/data/images/image_set.h"
#include "deq/lab/data/images/packed_images.h"
#include "lab/base/random_streams.h"
#include "lab/tasks/stability.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kLargestEvaluationBatch = 128;

ImageTransform transform_of(const ImageData& data, bool training) {
  const bool random = training && data.augment;
  auto transform = data.transform == ImagePreparation::Cifar10
                       ? (random ? cifar_training() : cifar_evaluation())
                       : (random ? imagenet_training() : imagenet_evaluation());
  if (auto* centre = std::get_if<CentreCrop>(&transform.crop); centre && centre->shorter_side > 0) {
    // The same margin around the crop at every size.
    centre->shorter_side = centre->shorter_side * data.image_size / transform.size;
  }
  if (auto* padded = std::get_if<PaddedCrop>(&transform.crop)) padded->margin = data.margin;
  transform.size = data.image_size;
  if (random) transform.erased = data.erased;
  return transform;
}

/// The first of these folders that is there.
fs::path split_folder(const ImageData& data, std::initializer_list<const char*> names) {
  std::string tried;
  for (const char* name : names) {
    if (fs::is_directory(fs::path(data.path) / name)) return fs::path(data.path) / name;
    tried += (tried.empty() ? "" : " or ") + std::string(name) + "/";
  }
  throw UsageError(
      fmt::format("data.path = \"{}\": there is no folder {} in it", data.path, tried));
}

std::shared_ptr<const ImageSet> open_set(const ImageData& data, bool training) {
  const auto folder =
      training ? split_folder(data, {"train"}) : split_folder(data, {"test", "val", "valid"});
  const auto transform = transform_of(data, training);
  if (data.format == ImageFormat::Packed) return std::make_shared<PackedImages>(folder, transform);
  return std::make_shared<ImageFolder>(folder, transform);
}

/// Which samples are used: all, or some drawn once.
torch::Tensor chosen(int64_t samples, std::optional<int64_t> wanted, int64_t seed,
                     RandomStream stream) {
  if (!wanted || *wanted >= samples) return torch::arange(samples);
  return torch::randperm(samples, random_stream(seed, stream)).narrow(0, 0, *wanted);
}

ImageTensors part_of(const ImageTensors& set, const torch::Tensor& indices, torch::Device device) {
  return {.images = set.images.index_select(0, indices).to(device),
          .labels = set.labels.index_select(0, indices).to(device),
          .classes = set.classes};
}

/// Some samples of a data set.
class Subset final : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> all, torch::Tensor indices)
      : all_(std::move(all)), indices_(std::move(indices)) {}
  int64_t size() const override { return indices_.numel(); }
  std::vector<torch::Tensor> get(int64_t index, uint64_t key) const override {
    return all_->get(index_in_all(index), key);
  }
  std::string describe(int64_t index) const override { return all_->describe(index_in_all(index)); }

 private:
  int64_t index_in_all(int64_t index) const { return indices_.const_data_ptr<int64_t>()[index]; }

  std::shared_ptr<const Dataset> all_;
  torch::Tensor indices_;
};

/// A batch size that leaves no image over.
Shard evaluation_shard(int64_t samples) {
  int64_t size = std::min(samples, kLargestEvaluationBatch);
  while (samples % size != 0) --size;
  return {.batch_size = size, .shuffle = false};
}

Shard drawn_shard(int64_t samples, int64_t seed) {
  return {.batch_size = std::min(samples, kStabilitySamples),
          .seed = random_key(seed, RandomStream::StabilitySamples)};
}

/// The images of one split, decoded.
ImageTensors read_whole(const VisionConfig& config, bool training,
                        std::vector<std::string>& warnings) {
  const auto& data = config.data;
  if (data.format == ImageFormat::Cifar10) {
    return read_cifar10(data.path, training ? CifarPart::Training : CifarPart::Test);
  }
  const auto set = open_set(data, training);
  if (config.train.loader.unreadable == OnUnreadable::Fail) return decode_all(*set);
  std::vector<UnreadableImage> left_out;
  auto images = decode_all(*set, &left_out);
  if (!left_out.empty()) {
    warnings.push_back(fmt::format(
        "{} of {} {} images cannot be read and {} left out; the first is {}: {}", left_out.size(),
        set->size(), training ? "training" : "validation", left_out.size() == 1 ? "is" : "are",
        left_out.front().name, left_out.front().reason));
  }
  return images;
}

ImageSets in_memory(const VisionConfig& config, torch::Device device) {
  const auto& data = config.data;
  const auto seed = config.seed;
  std::vector<std::string> warnings;
  auto train = read_whole(config, true, warnings);
  auto valid = read_whole(config, false, warnings);
  const auto classes = train.classes;
  train = part_of(
      train, chosen(train.labels.numel(), data.train_samples, seed, RandomStream::TrainingSubset),
      device);
  valid = part_of(
      valid, chosen(valid.labels.numel(), data.valid_samples, seed, RandomStream::ValidationSubset),
      device);
  return {.training =
              [train, transform = transform_of(data, true)](const Shard& shard, OnUnreadable) {
                return std::make_shared<AugmentedTensorBatches>(train, transform, shard);
              },
          .validation = std::make_shared<AugmentedTensorBatches>(
              valid, transform_of(data, false), evaluation_shard(valid.labels.numel())),
          .drawn = std::make_shared<AugmentedTensorBatches>(
              valid, transform_of(data, false), drawn_shard(valid.labels.numel(), seed)),
          .validation_samples = valid.labels.numel(),
          .classes = classes,
          .warnings = std::move(warnings)};
}

ImageSets from_disk(const VisionConfig& config) {
  const auto& data = config.data;
  const auto seed = config.seed;
  const auto train = open_set(data, true), valid = open_set(data, false);
  require_same_classes(*train, *valid);
  const auto used = std::make_shared<Subset>(
      train, chosen(train->size(), data.train_samples, seed, RandomStream::TrainingSubset));
  const auto tested = std::make_shared<Subset>(
      valid, chosen(valid->size(), data.valid_samples, seed, RandomStream::ValidationSubset));
  return {.training =
              [used](const Shard& shard, OnUnreadable on_unreadable) {
                return std::make_shared<DatasetBatches>(used, shard, on_unreadable);
              },
          .validation = std::make_shared<DatasetBatches>(tested, evaluation_shard(tested->size()),
                                                         config.train.loader.unreadable),
          .drawn = std::make_shared<DatasetBatches>(tested, drawn_shard(tested->size(), seed),
                                                    config.train.loader.unreadable),
          .validation_samples = tested->size(),
          .classes = train->classes()};
}

}  // namespace

ImageSets open_image_sets(const VisionConfig& config, torch::Device device) {
  require<UsageError>(config.data.erased <= config.data.image_size,
                      "data.erased = {}, must be at most data.image_size = {}", config.data.erased,
                      config.data.image_size);
  return config.data.transform == ImagePreparation::Cifar10 ? in_memory(config, device)
                                                            : from_disk(config);
}

ImageTransform prediction_transform(const ImageData& data) {
  auto transform = transform_of(data, false);
  auto& centre = std::get<CentreCrop>(transform.crop);
  if (centre.shorter_side == 0) centre.shorter_side = transform.size;
  return transform;
}

std::vector<std::string> class_names(const ImageData& data) {
  if (data.format == ImageFormat::Cifar10) return cifar10_classes(data.path);
  const auto folder = split_folder(data, {"train"});
  if (data.format == ImageFormat::Packed) return PackedImages(folder).classes();
  return class_folders(folder);
}

}  // namespace deq::lab
