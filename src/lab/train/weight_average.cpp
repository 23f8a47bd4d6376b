#include "lab/train/weight_average.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>

#include <algorithm>

namespace deq::lab {

WeightAverage::WeightAverage(torch::nn::Module& model, double decay) : decay_(decay) {
  if (!active()) return;
  for (const auto& item : model.named_parameters()) {
    const auto mean = item.value().detach().clone();
    means_[item.key()] = mean;
    means_in_order_.push_back(mean);
    parameters_.push_back(item.value());
  }
}

void WeightAverage::update(int64_t step) {
  if (!active()) return;
  const torch::NoGradGuard no_grad;
  const auto steps = static_cast<double>(step);
  const double kept = std::min(decay_, (1 + steps) / (10 + steps));
  at::_foreach_lerp_(means_in_order_, parameters_, 1 - kept);
}

WeightAverage::InPlace::InPlace(WeightAverage& average) : average_(average) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : average.parameters_) trained_.push_back(parameter.detach().clone());
  if (average.active()) at::_foreach_copy_(average.parameters_, average.means_in_order_);
}

WeightAverage::InPlace::~InPlace() {
  const torch::NoGradGuard no_grad;
  if (average_.active()) at::_foreach_copy_(average_.parameters_, trained_);
}

}  // namespace deq::lab
