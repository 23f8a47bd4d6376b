#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <optional>
#include <string>

// What stem, cell and head have in common.

namespace deq::models {

using OptionalGenerator = std::optional<at::Generator>;

/// The standard deviation of all convolution weights at the start, except normalised ones.
constexpr double kMdeqSpread = 0.01;

/// The order in which images and states lie in memory: all channels of a pixel side by side, as
/// our norms and the fastest convolutions of CPU and GPU want them.
constexpr auto kMdeqOrder = torch::MemoryFormat::ChannelsLast;

/// A convolution of stem or head, padded to keep the size.
torch::nn::Conv2d mdeq_conv2d(int64_t in, int64_t out, int64_t kernel, int64_t stride, bool bias,
                              const OptionalGenerator& generator);

/// Such a convolution → BN → ReLU.
torch::nn::Sequential mdeq_conv_norm_relu(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                          bool bias, const OptionalGenerator& generator);

/// Registers `module` in the tree under a dotted path, with plain modules on the way.
void register_at(torch::nn::Module& root, const std::string& path,
                 const std::shared_ptr<torch::nn::Module>& module);

}  // namespace deq::models
