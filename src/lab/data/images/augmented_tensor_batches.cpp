#include "deq/lab/data/images/augmented_tensor_batches.h"

#include "core/require.h"
#include "lab/base/random_streams.h"
#include "lab/data/images/augment_batch.h"

namespace deq::lab {
namespace {

int64_t samples_of(const ImageTensors& set) {
  const auto& images = set.images;
  require(images.dim() == 4 && images.size(1) == 3 && images.scalar_type() == torch::kUInt8,
          "images: they are {}{}, must be Byte[samples, 3, height, width]", images.scalar_type(),
          images.sizes());
  require(set.labels.dim() == 1 && set.labels.scalar_type() == torch::kInt64 &&
              set.labels.size(0) == images.size(0),
          "labels: they are {}{}, must be Long[{}]", set.labels.scalar_type(), set.labels.sizes(),
          images.size(0));
  require(set.labels.device() == images.device(),
          "labels: they are on {}, must be on {} as the images are", set.labels.device(),
          images.device());
  return images.size(0);
}

const ImageTransform& usable(const ImageTransform& transform, const ImageTensors& set) {
  validate(transform);
  const ImageSize size{set.images.size(2), set.images.size(3)};
  require(!std::holds_alternative<ResizedCrop>(transform.crop) &&
              size_before_crop(transform, size) == size,
          "transform: the crop resizes, must be one that does not for images in memory");
  draw_window(transform, size, 0);  // an image too small is refused here
  return transform;
}

}  // namespace

AugmentedTensorBatches::AugmentedTensorBatches(const ImageTensors& set,
                                               const ImageTransform& transform, const Shard& shard)
    : images_(set.images.contiguous()),
      labels_(set.labels),
      transform_(transform),
      shard_((validate(shard), shard)),
      batches_(shard.batches(samples_of(set))),
      order_(set.images.size(0), shard.seed, shard.shuffle),
      values_(Normalisation(usable(transform, set)).table().to(set.images.device())) {}

Batch AugmentedTensorBatches::batch(int64_t epoch, int64_t index) const {
  const auto order = order_.of(epoch);
  const auto first = shard_.first_entry(index);
  const auto* chosen = order.const_data_ptr<int64_t>() + first;
  const auto stream = epoch_stream(EpochStream::Samples, epoch);
  std::vector<Window> windows(static_cast<size_t>(shard_.slice_size()));
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto key = deq::random_key(shard_.seed, stream, static_cast<uint64_t>(chosen[i]));
    windows[i] = draw_window(transform_, {images_.size(2), images_.size(3)}, key);
  }
  const auto rows = order.narrow(0, first, shard_.slice_size()).to(images_.device());
  return {{images_.is_cpu() ? cut_batch(images_, chosen, windows, Normalisation(transform_))
                            : gather_batch(images_, chosen, windows, values_),
           labels_.index_select(0, rows)}};
}

}  // namespace deq::lab
