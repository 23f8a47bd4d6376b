#include "models/explicit/explicit_layers.h"

#include <cmath>

#include "core/require.h"

namespace deq::models {

torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding((kernel - 1) / 2)
                               .bias(false));
}

void draw_convolutions(const torch::nn::Module& network, Fan fan,
                       const std::optional<at::Generator>& generator) {
  const torch::NoGradGuard no_grad;
  for (const auto& module : network.modules(/*include_self=*/false)) {
    const auto* layer = module->as<torch::nn::Conv2d>();
    if (layer == nullptr) continue;
    auto weight = layer->weight;
    const int64_t connections = weight.numel() / weight.size(fan == Fan::In ? 0 : 1);
    weight.normal_(0, std::sqrt(2.0 / static_cast<double>(connections)), generator);
  }
}

void draw_linear(const torch::nn::Linear& layer, const std::optional<at::Generator>& generator) {
  const torch::NoGradGuard no_grad;
  const double bound = 1 / std::sqrt(static_cast<double>(layer->options.in_features()));
  layer->weight.uniform_(-bound, bound, generator);
  layer->bias.uniform_(-bound, bound, generator);
}

torch::Tensor global_average(const torch::Tensor& features) {
  return features.mean(c10::IntArrayRef{2, 3});
}

void require_images(const char* network, const torch::Tensor& images) {
  require(images.dim() == 4 && images.size(1) == 3,
          "{}: images of shape {}, must be [batch, 3, height, width]", network, images.sizes());
}

}  // namespace deq::models
