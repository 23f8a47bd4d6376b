#include "deq/lab/trained/predictor.h"

#include <utility>

#include "core/require.h"
#include "deq/core/precision.h"
#include "deq/lab/data/images/image_transform.h"
#include "deq/lab/settings/evaluation.h"
#include "deq/lab/settings/vision.h"
#include "lab/networks/image_classifier.h"
#include "lab/runs/model_state.h"
#include "lab/tasks/image_sets.h"
#include "lab/trained/run_config.h"

namespace deq::lab {
namespace {

std::vector<std::string> numbers_below(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// One name for each of the model's classes.
std::vector<std::string> names_for(int64_t count, std::vector<std::string> kept,
                                   const ImageData& data) {
  const auto fits = [count](const auto& names) {
    return static_cast<int64_t>(names.size()) == count;
  };
  if (fits(kept)) return kept;
  try {
    if (auto names = class_names(data); fits(names)) return names;
  } catch (const std::exception&) {
    // The data need not be there.
  }
  return numbers_below(count);
}

}  // namespace

struct Predictor::Parts {
  Parts(const VisionConfig& vision, torch::Device where, RunCheckpoint checkpoint)
      : config(vision),
        device(where),
        transform(prediction_transform(config.data)),
        how(evaluation_options(config)),
        classifier(config, device),
        warnings(std::move(checkpoint.warnings)) {
    restore_tensors(model_tensors(classifier.module()), checkpoint.weights,
                    checkpoint.path.string());
    classifier.module().eval();
    classes = names_for(classifier.classes(), std::move(checkpoint.classes), config.data);
  }

  VisionConfig config;
  torch::Device device;
  ImageTransform transform;
  EquilibriumPlan how;
  ImageClassifier classifier;
  std::vector<std::string> classes, warnings;
};

Predictor::Predictor(const std::filesystem::path& run, torch::Device device, WhichCheckpoint which,
                     const std::vector<std::string>& overrides) {
  const auto config = run_config_of<VisionConfig>(run, overrides, "vision", "classifies images");
  parts_ = std::make_unique<Parts>(config, device, read_run_checkpoint(run, which));
}

Predictor::~Predictor() = default;

const std::vector<std::string>& Predictor::classes() const {
  return parts_->classes;
}

const std::vector<std::string>& Predictor::warnings() const {
  return parts_->warnings;
}

Prediction Predictor::predict(std::string_view bytes) {
  const torch::NoGradGuard no_grad;
  const auto precision = parts_->config.precision;
  const PrecisionScope scope(precision, parts_->device);
  const auto image = transform_encoded(bytes, parts_->transform, /*key=*/0)
                         .unsqueeze(0)
                         .to(parts_->device, storage_type(precision));
  const auto scores = parts_->classifier.scores(image, parts_->how);
  const auto probabilities = scores.logits[0].to(torch::kCPU, torch::kFloat64).softmax(0);
  const auto* first = probabilities.const_data_ptr<double>();
  Prediction prediction{.probabilities = {first, first + probabilities.numel()}, .solve = {}};
  if (!scores.equilibria.empty()) {
    prediction.solve = scores.equilibria.front().report.samples.at(0);
  }
  return prediction;
}

}  // namespace deq::lab
