#include "train/image_classifier.h"

#include "deq/core/rng.h"
#include "deq/train/precision.h"
#include "train/model_state.h"

namespace deq {
namespace {

enum Stream : uint64_t { kWeights = 100 };

}  // namespace

ImageClassifier::ImageClassifier(const VisionConfig& config, torch::Device device)
    : network_(make_image_network(config.model,
                                  random_stream(static_cast<uint64_t>(config.seed), kWeights))),
      classes_(classes_of(config.model)) {
  place_model(module(), device, storage_type(config.precision));
}

}  // namespace deq
