#include "deq/lab/data/images/image_set.h"

#include <ATen/Parallel.h>

#include <optional>

#include "core/require.h"
#include "deq/lab/data/images/image_decode.h"

namespace deq::lab {
namespace {

/// The image, or nothing and why.
std::optional<torch::Tensor> decoded(const ImageSet& set, int64_t index, std::string& reason) {
  try {
    return decode_image(set.encoded(index));
  } catch (const Error& error) {
    reason = error.what();
    return std::nullopt;
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

ImageTensors decode_all(const ImageSet& set, std::vector<UnreadableImage>* left_out) {
  std::vector<std::string> reasons(static_cast<size_t>(set.size()));  // why one cannot be read
  const auto read = [&](int64_t index) {
    auto& reason = reasons[static_cast<size_t>(index)];
    auto image = decoded(set, index, reason);
    require(image || left_out != nullptr, "{} cannot be read: {}", set.describe(index), reason);
    return image;
  };
  int64_t first = 0;
  std::optional<torch::Tensor> image_of_first;
  while (!(image_of_first = read(first))) {
    ++first;
    require(first < set.size(), "no image can be read; of {}: {}", set.describe(0), reasons[0]);
  }
  const auto sizes = image_of_first->sizes().vec();
  ImageTensors all{torch::empty({set.size(), 3, sizes[1], sizes[2]}, torch::kUInt8),
                   torch::empty({set.size()}, torch::kInt64), set.classes()};
  auto* labels = all.labels.data_ptr<int64_t>();
  at::parallel_for(0, set.size(), /*grain_size=*/64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto image = read(i);
      if (!image) continue;
      require(image->sizes() == sizes, "{} is {} × {}, must be {} × {} as {}", set.describe(i),
              image->size(2), image->size(1), sizes[2], sizes[1], set.describe(first));
      all.images[i].copy_(*image);
      labels[i] = set.label(i);
    }
  });
  std::vector<int64_t> whole;
  for (int64_t i = 0; i < set.size(); ++i) {
    const auto& reason = reasons[static_cast<size_t>(i)];
    if (reason.empty()) {
      whole.push_back(i);
    } else {
      left_out->push_back({set.name(i), reason});
    }
  }
  if (std::ssize(whole) == set.size()) return all;
  const auto kept = torch::tensor(whole);
  return {all.images.index_select(0, kept), all.labels.index_select(0, kept), all.classes};
}

}  // namespace deq::lab
