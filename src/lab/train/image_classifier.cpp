#include "lab/train/image_classifier.h"

#include "deq/core/precision.h"
#include "lab/base/random_streams.h"
#include "lab/train/model_state.h"

namespace deq::lab {

ImageClassifier::ImageClassifier(const VisionConfig& config, torch::Device device)
    : network_(
          make_image_network(config.model, random_stream(config.seed, RandomStream::ImageWeights))),
      classes_(classes_of(config.model)) {
  move_model(module(), device, storage_type(config.precision));
}

}  // namespace deq::lab
