#pragma once

#include <torch/types.h>

#include <memory>

#include "deq/lab/settings/vision.h"
#include "lab/networks/image_network.h"

namespace deq::lab {

/// The network of a vision experiment, on its device and in its precision. It needs no data: who
/// trains it brings batches, who predicts with it brings images.
class ImageClassifier {
 public:
  /// With the weights that the seed draws.
  ImageClassifier(const VisionConfig& config, torch::Device device);

  torch::nn::Module& module() { return network_->module(); }
  int64_t classes() const { return classes_; }

  /// Of images that lie on its device, in its storage type.
  ImageScores scores(const torch::Tensor& images, const EquilibriumPlan& how) {
    return network_->forward(images, how);
  }

 private:
  std::unique_ptr<ImageNetwork> network_;
  int64_t classes_;
};

/// What a training step of the experiment minimises.
torch::Tensor training_loss(const torch::Tensor& logits, const torch::Tensor& labels,
                            const VisionConfig& config);

}  // namespace deq::lab
