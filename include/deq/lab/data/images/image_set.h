#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deq/lab/data/batches/dataset.h"
#include "deq/lab/data/images/image_tensors.h"
#include "deq/lab/data/images/image_transform.h"

namespace deq::lab {

/// Images with a class each, read in their file format. A sample is (image float32 [3, size, size],
/// label int64 []).
class ImageSet : public Dataset {
 public:
  explicit ImageSet(const ImageTransform& transform);

  /// Names of the classes, in the order of their labels.
  virtual const std::vector<std::string>& classes() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  /// class/file
  virtual std::string name(int64_t index) const = 0;
  /// The bytes of the image's file. Called from several threads at once.
  virtual std::string encoded(int64_t index) const = 0;
  /// How many there are, without reading them; 0 where there is no such file.
  virtual int64_t encoded_bytes(int64_t index) const = 0;

  std::vector<torch::Tensor> get(int64_t index, uint64_t key) const override;

 private:
  ImageTransform transform_;
};

/// An Error that names the first class that is not the same in both, such as the sets for training
/// and for evaluation.
void require_same_classes(const ImageSet& first, const ImageSet& second);

struct UnreadableImage {
  std::string name;
  std::string reason;
};

/// All images as they are, without a transform; they must be of one size. Those that cannot be read
/// are left out and named in `left_out`; without it the first of them is an Error.
ImageTensors decode_all(const ImageSet& set, std::vector<UnreadableImage>* left_out = nullptr);

}  // namespace deq::lab
