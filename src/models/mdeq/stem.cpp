#include "models/mdeq/stem.h"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>

#include <algorithm>

namespace deq::models {

torch::nn::Sequential mdeq_stem(const MdeqOptions& options, const OptionalGenerator& generator) {
  torch::nn::Sequential stem;
  const auto channels = options.channels[0];
  for (int64_t row = 0; row < std::max<int64_t>(2, options.downsample_times); ++row) {
    // The first two rows are numbered through, the others named, as in published checkpoints.
    const auto name = [row](int64_t number, const char* suffix) {
      return row < 2 ? std::to_string(3 * row + number) : fmt::format("DS{}{}", row + 1, suffix);
    };
    const auto in = row == 0 ? options.image_channels : channels;
    const auto stride = row < options.downsample_times ? 2 : 1;
    stem->push_back(name(0, ""), mdeq_conv2d(in, channels, 3, stride, /*bias=*/false, generator));
    stem->push_back(name(1, "-BN"), torch::nn::BatchNorm2d(channels));
    stem->push_back(name(2, "-RELU"), torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
  }
  return stem;
}

}  // namespace deq::models
