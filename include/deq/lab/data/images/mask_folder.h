#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deq/lab/data/batches/dataset.h"
#include "deq/lab/data/images/image_decode.h"
#include "deq/lab/data/images/mask_transform.h"

namespace deq::lab {

/// An image and where its mask must be.
struct MaskedFiles {
  std::filesystem::path image, mask;
};

/// Those that MaskFolder takes, in its order, whether their masks are there or not. UsageError
/// where there is no image, or where two would have the same mask.
std::vector<MaskedFiles> masked_files(const std::filesystem::path& root);

/// The mask of an image of this size. An Error that names it where it is of another one, has other
/// classes, or cannot be read.
torch::Tensor read_mask(const std::filesystem::path& path, const ImageSize& size, int64_t classes);

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
  const MaskedFiles& pair(int64_t index) const { return pairs_.at(static_cast<size_t>(index)); }

  int64_t classes_;
  MaskTransform transform_;
  std::vector<MaskedFiles> pairs_;
};

}  // namespace deq::lab
