#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deq/data/image_decode.h"
#include "deq/data/image_set.h"

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
  int64_t bytes = 0;                        ///< of the files that could be read
  ImageSize smallest, largest;              ///< by each side, of the readable images
  std::vector<UnreadableImage> unreadable;  ///< in the order of the set
};

/// Decodes every image, on all cores.
ImageSummary summarise(const ImageSet& set);

}  // namespace deq
