#include "lab/train/weight_average.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>

#include <algorithm>

namespace deq::lab {

WeightAverage::WeightAverage(torch::nn::Module& model, double decay) : decay_(decay) {
  if (!active()) return;
  const auto keep = [this](const std::string& name, const torch::Tensor& tensor) {
    const auto mean = tensor.detach().clone();
    means_[name] = mean;
    means_in_order_.push_back(mean);
    in_model_.push_back(tensor);
  };
  for (const auto& item : model.named_parameters()) keep(item.key(), item.value());
  for (const auto& item : model.named_buffers()) {
    if (item.value().is_floating_point()) keep(item.key(), item.value());
  }
}

void WeightAverage::update(int64_t step) {
  if (!active()) return;
  const torch::NoGradGuard no_grad;
  const auto steps = static_cast<double>(step);
  const double kept = std::min(decay_, (1 + steps) / (10 + steps));
  at::_foreach_lerp_(means_in_order_, in_model_, 1 - kept);
}

WeightAverage::InPlace::InPlace(WeightAverage& average) : average_(average) {
  const torch::NoGradGuard no_grad;
  for (const auto& tensor : average.in_model_) trained_.push_back(tensor.detach().clone());
  if (average.active()) at::_foreach_copy_(average.in_model_, average.means_in_order_);
}

WeightAverage::InPlace::~InPlace() {
  const torch::NoGradGuard no_grad;
  if (average_.active()) at::_foreach_copy_(average_.in_model_, trained_);
}

}  // namespace deq::lab
