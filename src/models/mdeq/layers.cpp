#include "models/mdeq/layers.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>

#include "models/module_tree.h"

namespace deq::models {

torch::nn::Conv2d mdeq_conv2d(int64_t in, int64_t out, int64_t kernel, int64_t stride, bool bias,
                              const OptionalGenerator& generator) {
  torch::nn::Conv2d convolution(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(bias));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : convolution->parameters()) parameter.normal_(0, kMdeqSpread, generator);
  return convolution;
}

torch::nn::Sequential mdeq_conv_norm_relu(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                          bool bias, const OptionalGenerator& generator) {
  return torch::nn::Sequential(mdeq_conv2d(in, out, kernel, stride, bias, generator),
                               torch::nn::BatchNorm2d(out),
                               torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
}

void register_at(torch::nn::Module& root, const std::string& path,
                 const std::shared_ptr<torch::nn::Module>& module) {
  const auto target = end_of_path(root, path);
  target.parent->register_module(target.name, module);
}

}  // namespace deq::models
