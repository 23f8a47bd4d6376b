#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deq/lab/runs/run.h"

namespace deq::lab {

struct SamplingOptions {
  double temperature = 1.0;  ///< > 0; below 1 likely words become likelier
  int64_t top = 0;           ///< ≥ 0; only this many of the likeliest words; 0: all
  uint64_t seed = 0;
};

struct GeneratedWord {
  std::string_view word;  ///< kEndOfLineWord where a line ends
  double probability = 0;
  /// Evaluations of f to read it; none with an explicit network.
  std::optional<int64_t> evaluations{};
};

/// The language model of a run, continuing a text. The text that it was trained on need not be
/// there.
class TextGenerator {
 public:
  /// Throws UsageError where the folder holds no run or one without a language model, Error where
  /// no checkpoint is whole or fits.
  TextGenerator(const std::filesystem::path& run, const SamplingOptions& sampling,
                torch::Device device = torch::kCPU, WhichCheckpoint which = WhichCheckpoint::Newest,
                const std::vector<std::string>& overrides = {});
  ~TextGenerator();

  /// Checkpoints that were passed over, and why.
  const std::vector<std::string>& warnings() const;

  /// Forgets everything and reads `prompt`. Returns those of its words that the model does not
  /// know.
  std::vector<std::string> read(std::string_view prompt);

  /// Draws the next word, and reads it: earlier positions keep their equilibria, and the solve of
  /// the new one begins at the equilibrium of the one before it.
  GeneratedWord next();

  /// The evaluations that reading the last word takes from the model's own start. Changes nothing;
  /// none with an explicit network or before the first word.
  std::optional<int64_t> evaluations_from_zero();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace deq::lab
