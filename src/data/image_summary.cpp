#include "deq/data/image_summary.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "deq/core/error.h"

namespace deq {
namespace {

struct Seen {
  ImageSize size;
  int64_t bytes = 0;
  std::string reason;  // why it cannot be read, or nothing
};

Seen look_at(const ImageSet& set, int64_t index) {
  Seen seen;
  try {
    const auto bytes = set.encoded(index);
    seen.bytes = static_cast<int64_t>(bytes.size());
    const auto image = decode_image(bytes);
    seen.size = {image.size(1), image.size(2)};
  } catch (const Error& error) {
    seen.reason = error.what();
  }
  return seen;
}

}  // namespace

ImageSummary summarise(const ImageSet& set) {
  std::vector<Seen> all(static_cast<size_t>(set.size()));
  at::parallel_for(0, set.size(), /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) all[static_cast<size_t>(i)] = look_at(set, i);
  });

  ImageSummary summary;
  summary.images = set.size();
  for (const auto& name : set.classes()) summary.classes.push_back({name});
  for (int64_t i = 0; i < set.size(); ++i) {
    const auto& [size, bytes, reason] = all[static_cast<size_t>(i)];
    ++summary.classes.at(static_cast<size_t>(set.label(i))).images;
    summary.bytes += bytes;
    if (!reason.empty()) {
      summary.unreadable.push_back({set.name(i), reason});
      continue;
    }
    auto &smallest = summary.smallest, &largest = summary.largest;
    if (largest == ImageSize{}) smallest = size;
    smallest = {std::min(smallest.height, size.height), std::min(smallest.width, size.width)};
    largest = {std::max(largest.height, size.height), std::max(largest.width, size.width)};
  }
  return summary;
}

}  // namespace deq
