#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deq/lab/data/images/image_decode.h"
#include "deq/lab/data/images/image_set.h"
#include "deq/lab/data/images/image_tensors.h"

namespace deq::lab {

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
  ImageSize smallest, median, largest;  ///< by each side
  std::map<int64_t, int64_t> channels;  ///< how many images have this many channels in their file
  std::array<double, 3> mean{}, deviation{};  ///< of all pixels, by channel, on the scale 0 … 1

  std::vector<UnreadableImage> unreadable;  ///< in the order of the set
};

struct SummaryOptions {
  std::optional<int64_t> max_images{};  ///< ≥ 1; decode only this many
  /// Called with the images done and the number of all, by one thread at a time.
  std::function<void(int64_t done, int64_t total)> progress{};
};

void validate(const SummaryOptions& options);

/// Decodes the images on all cores.
ImageSummary summarise(const ImageSet& set, const SummaryOptions& options = {});

/// Of images that are in memory already: all of them.
ImageSummary summarise(const ImageTensors& set);

}  // namespace deq::lab
