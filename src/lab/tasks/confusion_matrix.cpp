#include "lab/tasks/confusion_matrix.h"

#include <limits>
#include <numeric>

#include "core/require.h"
#include "deq/lab/data/images/mask_decode.h"

namespace deq::lab {

ConfusionMatrix::ConfusionMatrix(int64_t classes) : classes_(classes) {
  require(classes >= 1, "confusion matrix: classes = {}, must be ≥ 1", classes);
  counts_.resize(static_cast<size_t>(classes * classes));
}

void ConfusionMatrix::add(const torch::Tensor& predicted, const torch::Tensor& labels) {
  require(predicted.sizes() == labels.sizes(),
          "confusion matrix: predictions of shape {}, must be {} as the labels", predicted.sizes(),
          labels.sizes());
  const auto counted = labels.ne(kIgnoredLabel);
  const auto truth = labels.masked_select(counted).to(torch::kInt64);
  const auto taken_for = predicted.masked_select(counted).to(torch::kInt64);
  if (truth.numel() == 0) return;
  for (const auto& numbers : {truth, taken_for}) {
    const auto least = numbers.min().item<int64_t>(), most = numbers.max().item<int64_t>();
    require(least >= 0 && most < classes_, "confusion matrix: a class {}, must be in [0, {})",
            least < 0 ? least : most, classes_);
  }
  const auto found = torch::bincount(truth * classes_ + taken_for, {}, classes_ * classes_).cpu();
  const auto* first = found.const_data_ptr<int64_t>();
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += static_cast<double>(first[i]);
}

double ConfusionMatrix::pixels() const {
  return std::accumulate(counts_.begin(), counts_.end(), 0.0);
}

double ConfusionMatrix::count(int64_t label, int64_t predicted) const {
  return counts_.at(static_cast<size_t>(label * classes_ + predicted));
}

double ConfusionMatrix::pixel_accuracy() const {
  double right = 0;
  for (int64_t i = 0; i < classes_; ++i) right += count(i, i);
  return right / pixels();
}

std::optional<double> ConfusionMatrix::iou(int64_t label) const {
  double united = -count(label, label);  // which both sums hold
  for (int64_t i = 0; i < classes_; ++i) united += count(label, i) + count(i, label);
  if (united == 0) return std::nullopt;
  return count(label, label) / united;
}

double ConfusionMatrix::mean_iou() const {
  double sum = 0, known = 0;
  for (int64_t i = 0; i < classes_; ++i) {
    if (const auto one = iou(i)) {
      sum += *one;
      ++known;
    }
  }
  return known > 0 ? sum / known : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace deq::lab
