#include "models/mdeq/start.h"

#include <ATen/ops/avg_pool2d.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/normalization.h>

namespace deq::models {

MdeqStart::MdeqStart(torch::nn::Module& owner, const MdeqOptions& options,
                     const OptionalGenerator& generator) {
  for (size_t i = 0; i < options.scales(); ++i) {
    const auto width = options.channels[i];
    auto last = mdeq_conv2d(width, width, 1, 1, /*bias=*/true, generator);
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : last->parameters()) parameter.zero_();
    }
    scales_.emplace_back(mdeq_conv2d(options.channels[0], width, 3, 1, /*bias=*/false, generator),
                         torch::nn::GroupNorm(options.groups, width), torch::nn::ReLU(), last);
    register_at(owner, fmt::format("start.{}", i), scales_.back().ptr());
  }
}

State MdeqStart::predict(const torch::Tensor& injection) {
  State start;
  auto pooled = injection;
  for (size_t i = 0; i < scales_.size(); ++i) {
    if (i > 0) pooled = at::avg_pool2d(pooled, 2);
    // Autocast may have left another type; that of the injection is the state's.
    start.push_back(scales_[i]->forward(pooled).to(injection.scalar_type()).contiguous(kMdeqOrder));
  }
  return start;
}

}  // namespace deq::models
