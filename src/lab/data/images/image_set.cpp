#include "deq/lab/data/images/image_set.h"

#include <ATen/Parallel.h>

#include "core/require.h"
#include "deq/lab/data/images/image_decode.h"

namespace deq::lab {
namespace {

torch::Tensor decoded(const ImageSet& set, int64_t index) {
  try {
    return decode_image(set.encoded(index));
  } catch (const Error& error) {
    throw Error(fmt::format("{} cannot be read: {}", set.describe(index), error.what()));
  }
}

}  // namespace

ImageSet::ImageSet(const ImageTransform& transform)
    : transform_((validate(transform), transform)) {}

std::vector<torch::Tensor> ImageSet::get(int64_t index, uint64_t key) const {
  return {transform_encoded(encoded(index), transform_, key), torch::tensor(label(index))};
}

void require_same_classes(const ImageSet& first, const ImageSet& second) {
  const auto &one = first.classes(), &other = second.classes();
  require(one.size() == other.size(),
          "the first set has {} classes, the second {}, must be the same", one.size(),
          other.size());
  for (size_t i = 0; i < one.size(); ++i) {
    require(one[i] == other[i],
            "class {} is \"{}\" in the first set and \"{}\" in the second, must be the same", i,
            one[i], other[i]);
  }
}

ImageTensors decode_all(const ImageSet& set) {
  const auto sizes = decoded(set, 0).sizes().vec();
  ImageTensors all{torch::empty({set.size(), 3, sizes[1], sizes[2]}, torch::kUInt8),
                   torch::empty({set.size()}, torch::kInt64), set.classes()};
  auto* labels = all.labels.data_ptr<int64_t>();
  at::parallel_for(0, set.size(), /*grain_size=*/64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto image = decoded(set, i);
      require(image.sizes() == sizes, "{} is {} × {}, must be {} × {} as {}", set.describe(i),
              image.size(2), image.size(1), sizes[2], sizes[1], set.describe(0));
      all.images[i].copy_(image);
      labels[i] = set.label(i);
    }
  });
  return all;
}

}  // namespace deq::lab
