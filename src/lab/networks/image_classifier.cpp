#include "lab/networks/image_classifier.h"

#include <torch/nn/functional/loss.h>

#include "deq/core/precision.h"
#include "lab/base/misuse.h"
#include "lab/base/random_streams.h"
#include "lab/runs/model_state.h"

namespace deq::lab {

ImageClassifier::ImageClassifier(const VisionConfig& config, torch::Device device)
    : network_(refusals_as_misuse([&config] {
        return make_image_network(config.model,
                                  random_stream(config.seed, RandomStream::ImageWeights));
      })),
      classes_(classes_of(config.model)) {
  move_model(module(), device, storage_type(config.precision));
}

torch::Tensor training_loss(const torch::Tensor& logits, const torch::Tensor& labels,
                            const VisionConfig& config) {
  const auto options =
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(config.loss.label_smoothing);
  return torch::nn::functional::cross_entropy(logits.to(storage_type(config.precision)), labels,
                                              options);
}

}  // namespace deq::lab
