#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/data/images/packed_images.h"

namespace deq::lab {

struct PackedSplit {
  std::string name;
  PackReport report;
};

/// Packs every split of an image folder into a folder of its name in `out`, which appears whole or
/// not at all and must not exist. The splits must have the same classes.
std::vector<PackedSplit> pack_splits(const std::filesystem::path& folder,
                                     const std::filesystem::path& out,
                                     const PackOptions& options = {});

}  // namespace deq::lab
