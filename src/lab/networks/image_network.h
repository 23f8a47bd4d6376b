#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <memory>
#include <vector>

#include "deq/lab/settings/vision.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

struct ImageScores {
  torch::Tensor logits;                  ///< [B, classes]
  std::vector<Equilibrated> equilibria;  ///< none from an explicit network
};

/// The networks that classify images, under one interface.
class ImageNetwork {
 public:
  virtual ~ImageNetwork() = default;
  virtual torch::nn::Module& module() = 0;
  virtual ImageScores forward(const torch::Tensor& images, const EquilibriumPlan& plan) = 0;
};

std::unique_ptr<ImageNetwork> make_image_network(const ImageModel& model, at::Generator generator);

int64_t classes_of(const ImageModel& model);

}  // namespace deq::lab
