#include "deq/data/image_set.h"

#include <ATen/Parallel.h>

#include "deq/core/error.h"
#include "deq/data/image_decode.h"

namespace deq {
namespace {

torch::Tensor decoded(const ImageSet& set, int64_t index) {
  try {
    return decode_image(set.encoded(index));
  } catch (const Error& error) {
    throw Error(c10::str(set.describe(index), " cannot be read: ", error.what()));
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
  require(one.size() == other.size(), "the first set has ", one.size(), " classes, the second ",
          other.size(), ", must be the same");
  for (size_t i = 0; i < one.size(); ++i) {
    require(one[i] == other[i], "class ", i, " is \"", one[i], "\" in the first set and \"",
            other[i], "\" in the second, must be the same");
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
      require(image.sizes() == sizes, set.describe(i), " is ", image.size(2), " × ", image.size(1),
              ", must be ", sizes[2], " × ", sizes[1], " as ", set.describe(0));
      all.images[i].copy_(image);
      labels[i] = set.label(i);
    }
  });
  return all;
}

}  // namespace deq
