#include "deq/lab/data/images/image_summary.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "core/require.h"

namespace deq::lab {
namespace {

/// In whole numbers, so that the order in which threads add does not matter.
struct PixelSums {
  std::array<uint64_t, 3> sum{}, squares{};
  uint64_t pixels = 0;

  void add(const torch::Tensor& image) {
    const auto rows = image.permute({1, 2, 0}).contiguous();
    const auto* bytes = rows.const_data_ptr<uint8_t>();
    const auto count = static_cast<uint64_t>(rows.numel());
    for (uint64_t i = 0; i < count; i += 3) {
      for (uint64_t channel = 0; channel < 3; ++channel) {
        const uint64_t value = bytes[i + channel];
        sum[channel] += value;
        squares[channel] += value * value;
      }
    }
    pixels += count / 3;
  }

  void add(const PixelSums& more) {
    for (size_t channel = 0; channel < 3; ++channel) {
      sum[channel] += more.sum[channel];
      squares[channel] += more.squares[channel];
    }
    pixels += more.pixels;
  }

  void write_to(ImageSummary& summary) const {
    if (pixels == 0) return;
    const auto count = static_cast<double>(pixels);
    for (size_t channel = 0; channel < 3; ++channel) {
      const double mean = static_cast<double>(sum[channel]) / count;
      const double square = static_cast<double>(squares[channel]) / count;
      summary.mean[channel] = mean / 255;
      summary.deviation[channel] = std::sqrt(std::max(square - mean * mean, 0.0)) / 255;
    }
  }
};

struct Seen {
  ImageSize size;
  int64_t channels = 0;
  std::string reason;  // why it cannot be read, or nothing
};

Seen look_at(const ImageSet& set, int64_t index, PixelSums& sums) {
  Seen seen;
  try {
    const auto bytes = set.encoded(index);
    const auto image = decode_image(bytes);
    seen.size = {image.size(1), image.size(2)};
    seen.channels = image_channels(bytes);
    sums.add(image);
  } catch (const std::exception& error) {  // also for want of memory
    seen.reason = error.what();
  }
  return seen;
}

int64_t middle(std::vector<int64_t> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

void tell_sizes(const std::vector<Seen>& all, ImageSummary& summary) {
  std::vector<int64_t> heights, widths;
  for (const auto& seen : all) {
    if (!seen.reason.empty()) continue;
    heights.push_back(seen.size.height);
    widths.push_back(seen.size.width);
    ++summary.channels[seen.channels];
  }
  if (heights.empty()) return;
  const auto [low, high] = std::minmax_element(heights.begin(), heights.end());
  const auto [narrow, wide] = std::minmax_element(widths.begin(), widths.end());
  summary.smallest = {*low, *narrow};
  summary.largest = {*high, *wide};
  summary.median = {middle(heights), middle(widths)};
}

}  // namespace

void validate(const SummaryOptions& options) {
  require(options.max_images.value_or(1) >= 1, "summary: max_images = {}, must be ≥ 1",
          *options.max_images);
}

ImageSummary summarise(const ImageSet& set, const SummaryOptions& options) {
  validate(options);
  const int64_t examined = std::min(set.size(), options.max_images.value_or(set.size()));
  const auto index_of = [&](int64_t i) { return i * set.size() / examined; };
  std::vector<Seen> all(static_cast<size_t>(examined));
  PixelSums sums;
  int64_t done = 0;
  std::mutex mutex;
  at::parallel_for(0, examined, /*grain_size=*/16, [&](int64_t begin, int64_t end) {
    PixelSums own;
    for (int64_t i = begin; i < end; ++i) {
      all[static_cast<size_t>(i)] = look_at(set, index_of(i), own);
      const std::lock_guard lock(mutex);
      ++done;
      if (options.progress) options.progress(done, examined);
    }
    const std::lock_guard lock(mutex);
    sums.add(own);
  });

  ImageSummary summary;
  summary.images = set.size();
  summary.examined = examined;
  for (const auto& name : set.classes()) summary.classes.push_back({name});
  for (int64_t i = 0; i < set.size(); ++i) {
    ++summary.classes.at(static_cast<size_t>(set.label(i))).images;
    summary.bytes += set.encoded_bytes(i);
  }
  for (int64_t i = 0; i < examined; ++i) {
    const auto& reason = all[static_cast<size_t>(i)].reason;
    if (!reason.empty()) summary.unreadable.push_back({set.name(index_of(i)), reason});
  }
  tell_sizes(all, summary);
  sums.write_to(summary);
  return summary;
}

ImageSummary summarise(const ImageTensors& set) {
  ImageSummary summary;
  const ImageSize size{set.images.size(2), set.images.size(3)};
  summary.images = summary.examined = set.images.size(0);
  summary.bytes = set.images.numel() + set.labels.numel();
  summary.smallest = summary.median = summary.largest = size;
  summary.channels = {{3, summary.images}};
  for (const auto& name : set.classes) summary.classes.push_back({name});
  PixelSums sums;
  for (int64_t i = 0; i < summary.images; ++i) {
    ++summary.classes.at(static_cast<size_t>(set.labels[i].item<int64_t>())).images;
    sums.add(set.images[i]);
  }
  sums.write_to(summary);
  return summary;
}

}  // namespace deq::lab
