#include "models/mdeq/head.h"

#include <fmt/format.h>
#include <cmath>

#include "replay/side_by_side.h"

namespace deq::models {
namespace {

torch::nn::BatchNorm2d plain_norm(int64_t channels) {
  return torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels).affine(false));
}

}  // namespace

MdeqBottleneckImpl::MdeqBottleneckImpl(int64_t in, int64_t planes,
                                       const OptionalGenerator& generator)
    : conv1_(register_module("conv1", mdeq_conv2d(in, planes, 1, 1, false, generator))),
      conv2_(register_module("conv2", mdeq_conv2d(planes, planes, 3, 1, false, generator))),
      conv3_(register_module("conv3",
                             mdeq_conv2d(planes, kWidening * planes, 1, 1, false, generator))),
      bn1_(register_module("bn1", plain_norm(planes))),
      bn2_(register_module("bn2", plain_norm(planes))),
      bn3_(register_module("bn3", plain_norm(kWidening * planes))) {
  const auto out = kWidening * planes;
  if (in == out) return;
  shortcut_ = register_module("downsample",
                              torch::nn::Sequential(mdeq_conv2d(in, out, 1, 1, false, generator),
                                                    torch::nn::BatchNorm2d(out)));
}

torch::Tensor MdeqBottleneckImpl::forward(const torch::Tensor& x) {
  auto y = bn1_(conv1_(x)).relu_();
  y = bn2_(conv2_(y)).relu_();
  y = bn3_(conv3_(y));
  return y.add_(shortcut_.is_empty() ? x : shortcut_->forward(x)).relu_();
}

MdeqHead::MdeqHead(torch::nn::Module& owner, const MdeqOptions& options,
                   const OptionalGenerator& generator) {
  const auto width = [&](size_t i) {
    return MdeqBottleneckImpl::kWidening * options.head_channels[i];
  };
  for (size_t i = 0; i < options.scales(); ++i) {
    widen_.emplace_back(options.channels[i], options.head_channels[i], generator);
    register_at(owner, fmt::format("incre_modules.{}.0", i), widen_.back().ptr());
  }
  for (size_t i = 0; i + 1 < options.scales(); ++i) {
    shrink_.push_back(mdeq_conv_norm_relu(width(i), width(i + 1), 3, 2, true, generator));
    register_at(owner, fmt::format("downsamp_modules.{}", i), shrink_.back().ptr());
  }
  features_ = owner.register_module(
      "final_layer", mdeq_conv_norm_relu(width(options.scales() - 1), options.final_channels, 1, 1,
                                         true, generator));
  classifier_ = owner.register_module("classifier",
                                      torch::nn::Linear(options.final_channels, options.classes));
  const torch::NoGradGuard no_grad;
  const double bound = 1 / std::sqrt(options.final_channels);
  for (auto& parameter : classifier_->parameters()) parameter.uniform_(-bound, bound, generator);
  std::vector<std::shared_ptr<torch::nn::Module>> modules{features_.ptr(), classifier_.ptr()};
  for (const auto& widen : widen_) modules.push_back(widen.ptr());
  for (const auto& shrink : shrink_) modules.push_back(shrink.ptr());
  replayed_ = std::make_shared<ReplayedFunction>(
      modules, [this](const auto& states) { return evaluate(states); });
}

torch::Tensor MdeqHead::forward(const std::vector<torch::Tensor>& scales, Replay replay) {
  return (*replayed_)(scales, replay);
}

torch::Tensor MdeqHead::evaluate(const std::vector<torch::Tensor>& scales) {
  std::vector<torch::Tensor> wide(scales.size());
  side_by_side(scales[0].device(), scales.size(),
               [&](size_t i) { wide[i] = widen_[i](scales[i]); });
  auto y = wide[0];
  for (size_t i = 0; i < shrink_.size(); ++i) y = wide[i + 1] + shrink_[i]->forward(y);
  return classifier_(features_->forward(y).mean({2, 3}));
}

}  // namespace deq::models
