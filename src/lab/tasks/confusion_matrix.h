#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace deq::lab {

/// How often pixels of one class were taken for each class. Pixels labelled kIgnoredLabel are left
/// out.
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes);

  /// Two tensors of whole numbers of one shape, on one device.
  void add(const torch::Tensor& predicted, const torch::Tensor& labels);

  /// Row after row, one for each true class, to be added to those of other ranks. Whole numbers
  /// below 2⁵³ are added exactly.
  std::span<double> counts() { return counts_; }

  int64_t classes() const { return classes_; }
  double pixels() const;
  double count(int64_t label, int64_t predicted) const;

  /// The share of the pixels that were taken for what they are; NaN where there are none.
  double pixel_accuracy() const;
  /// Of a class, with P the pixels taken for it and T those that are of it: |P ∩ T| / |P ∪ T|.
  /// Nothing where both are empty.
  std::optional<double> iou(int64_t label) const;
  /// The mean over the classes that have one; NaN where none has.
  double mean_iou() const;

 private:
  int64_t classes_;
  std::vector<double> counts_;
};

}  // namespace deq::lab
