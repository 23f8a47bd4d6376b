#pragma once

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deq/core/report.h"
#include "deq/lab/runs/run.h"

namespace deq::lab {

struct Prediction {
  std::vector<double> probabilities;  ///< of each class
  std::optional<SampleReport> solve;  ///< how its equilibrium was found; none in explicit networks
};

/// The classifier of a run, for images that have no label. The data that it was trained on need not
/// be there.
class Predictor {
 public:
  /// Throws UsageError where the folder holds no run or one that does not classify images, Error
  /// where no checkpoint is whole or fits.
  explicit Predictor(const std::filesystem::path& run, torch::Device device = torch::kCPU,
                     WhichCheckpoint which = WhichCheckpoint::Newest,
                     const std::vector<std::string>& overrides = {});
  ~Predictor();

  /// The checkpoint's names; those of the data where an older one has none; or else numbers.
  const std::vector<std::string>& classes() const;

  /// Checkpoints that were passed over, and why.
  const std::vector<std::string>& warnings() const;

  /// The bytes of a JPEG or PNG file, prepared as for validation; an image of another size than the
  /// model's is resized. Images are solved one by one: none changes what another is taken for.
  Prediction predict(std::string_view bytes);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace deq::lab
