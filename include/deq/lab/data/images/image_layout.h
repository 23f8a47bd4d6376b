#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deq/lab/data/images/image_set.h"

// What lies in a folder of images, judged by the names of its files.

namespace deq::lab {

enum class ImageLayout {
  Cifar10,
  Folder,  ///< <class>/*.jpg|png
  Packed,
  Masks,  ///< images/*.jpg|png, each with masks/*.png of the same name
};

/// "image folder", …
std::string_view description(ImageLayout layout);

/// The value of the key data.format; "masks" where there is no such key, for segmentation.
std::string_view format_key(ImageLayout layout);

struct ImageSplit {
  std::string name;  ///< "train", "test", "val" or "valid"; none where the folder itself is the set
  std::filesystem::path folder;
};

struct FoundImages {
  ImageLayout layout;
  std::filesystem::path folder;
  std::vector<ImageSplit> splits;  ///< at least one
};

/// Throws UsageError where there are no images, saying what was looked for.
FoundImages find_images(const std::filesystem::path& folder);

}  // namespace deq::lab
