#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deq/data/image_decode.h"
#include "deq/data/image_set.h"
#include "deq/data/image_tensors.h"

namespace deq {

struct UnreadableImage {
  std::string name;
  std::string reason;
};

struct ImageSummary {
  struct Class {
    std::string name;
    int64_t images = 0;  ///< the unreadable ones too
  };

  std::vector<Class> classes;
  int64_t images = 0;
  int64_t bytes = 0;     ///< of all files
  int64_t examined = 0;  ///< images that were decoded: all of them, or some spread evenly

  // Of the readable ones among these:
  ImageSize smallest, median, largest;        ///< by each side
  std::map<int64_t, int64_t> channels;        ///< how many have so many channels in their file
  std::array<double, 3> mean{}, deviation{};  ///< of all pixels, by channel, on the scale 0 … 1

  std::vector<UnreadableImage> unreadable;  ///< in the order of the set
};

struct SummaryOptions {
  std::optional<int64_t> max_images{};  ///< ≥ 1; decode only so many
  /// Told how many of how many are done, by one thread at a time.
  std::function<void(int64_t done, int64_t total)> progress{};
};

void validate(const SummaryOptions& options);

/// Decodes the images on all cores.
ImageSummary summarise(const ImageSet& set, const SummaryOptions& options = {});

/// Of images that are in memory already: all of them.
ImageSummary summarise(const ImageTensors& set);

}  // namespace deq
