#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deq/lab/data/batches/dataset_batches.h"
#include "deq/lab/data/images/image_set.h"
#include "deq/lab/data/images/image_summary.h"

// A packed set is a folder with the bytes of all image files, one after the other, in a few large
// files (images-00000.bin, …) and an index (index.safetensors) that is written last.

namespace deq::lab {

struct PackOptions {
  int64_t shard_bytes = int64_t{1} << 30;           ///< ≥ 1; a file of the set ends beyond this
  OnUnreadable on_unreadable = OnUnreadable::Fail;  ///< a file that cannot be read or decoded
  bool decode = true;                               ///< decode every image; else only read it
  /// Called with the images done and the number of all.
  std::function<void(int64_t done, int64_t total)> progress{};
};

void validate(const PackOptions& options);

struct PackReport {
  int64_t images = 0;
  int64_t shards = 0;
  int64_t bytes = 0;
  std::vector<UnreadableImage> skipped;
};

/// Writes a packed set into `out`, which is made if need be. Every file appears whole or not at
/// all; without an index there is no set, and packing again writes all of it anew. A folder that
/// holds a packed set already is refused.
PackReport pack_images(const ImageSet& set, const std::filesystem::path& out,
                       const PackOptions& options = {});

/// A packed set. Every image is checked against its checksum when it is read.
class PackedImages : public ImageSet {
 public:
  explicit PackedImages(std::filesystem::path folder, const ImageTransform& transform = {});
  ~PackedImages() override;

  int64_t size() const override;
  const std::vector<std::string>& classes() const override;
  int64_t label(int64_t index) const override;
  std::string name(int64_t index) const override;
  std::string encoded(int64_t index) const override;
  int64_t encoded_bytes(int64_t index) const override;
  /// Its name and the folder of the set.
  std::string describe(int64_t index) const override;

 private:
  struct Files;

  std::filesystem::path folder_;
  std::unique_ptr<const Files> files_;
};

}  // namespace deq::lab
