#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/data/batches/dataset.h"
#include "deq/lab/data/images/mask_transform.h"

namespace deq::lab {

/// The images root/images/*.jpg, *.jpeg and *.png, in the order of their names, each with its mask
/// root/masks/<the same name>.png. A sample is (image float32 [3, H, W], mask uint8 [H, W]), the
/// mask's numbers being classes or kIgnoredLabel.
class MaskFolder : public Dataset {
 public:
  /// UsageError where a folder or a mask is missing.
  MaskFolder(const std::filesystem::path& root, int64_t classes,
             const MaskTransform& transform = {});

  int64_t size() const override { return static_cast<int64_t>(pairs_.size()); }
  /// An Error that names the mask where it is not of the image's size or has other classes.
  std::vector<torch::Tensor> get(int64_t index, uint64_t key) const override;
  /// The image's path.
  std::string describe(int64_t index) const override { return pair(index).image.string(); }

  /// As they are in the files.
  MaskedImage decoded(int64_t index) const;

 private:
  struct Pair {
    std::filesystem::path image, mask;
  };

  const Pair& pair(int64_t index) const { return pairs_.at(static_cast<size_t>(index)); }

  int64_t classes_;
  MaskTransform transform_;
  std::vector<Pair> pairs_;
};

}  // namespace deq::lab
