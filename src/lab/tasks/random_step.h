#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deq/core/precision.h"
#include "deq/lab/train/task.h"

namespace deq::lab {

/// A training step's network on random data of the step's shapes: what can be measured of an
/// experiment without its data. Every pass sees the same numbers.
class RandomStep {
 public:
  RandomStep() = default;
  RandomStep(const RandomStep&) = delete;
  RandomStep& operator=(const RandomStep&) = delete;
  virtual ~RandomStep() = default;

  virtual torch::nn::Module& model() = 0;
  virtual TaskPass forward(const EquilibriumPlan& how) = 0;
  /// Sizes by the last part of the keys that say them in a configuration.
  virtual std::vector<std::pair<std::string, int64_t>> shapes() const = 0;
};

struct RandomStepOptions {
  torch::Device device = torch::kCPU;
  Precision precision = Precision::Float32;  ///< in place of the configuration's
  std::optional<int64_t> batch_size{};       ///< ≥ 1, in place of the configuration's
  int64_t words = 53'944;  ///< ≥ 1, of a vocabulary for which there is no data.max_words
};

/// Of a file that describes image classification or language modelling; a ConfigError where it
/// cannot be read, a UsageError where it describes something else.
std::unique_ptr<RandomStep> make_random_step(const std::filesystem::path& config,
                                             const std::vector<std::string>& overrides,
                                             const RandomStepOptions& options);

/// Log-uniformly: frequent words come first in a vocabulary, as Zipf's law has them.
torch::Tensor random_words(c10::IntArrayRef shape, int64_t vocabulary, torch::Device device);

}  // namespace deq::lab
