#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <optional>

// What the explicit image networks share.

namespace deq::models {

/// Without bias, padded so that stride 1 keeps the size. `kernel` is odd.
torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);

enum class Fan { In, Out };

/// Kaiming's normal distribution for ReLU, over the inputs or the outputs, for every convolution of
/// the network.
void draw_convolutions(const torch::nn::Module& network, Fan fan,
                       const std::optional<at::Generator>& generator);

/// Uniform on ±1/√inputs, the bias likewise.
void draw_linear(const torch::nn::Linear& layer, const std::optional<at::Generator>& generator);

/// The mean over the image, [B, C, H, W] → [B, C].
torch::Tensor global_average(const torch::Tensor& features);

/// Throws Error unless the shape is [B, 3, H, W]; `network` names who asks.
void require_images(const char* network, const torch::Tensor& images);

}  // namespace deq::models
