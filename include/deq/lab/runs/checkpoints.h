#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "deq/lab/io/safetensors.h"

namespace deq::lab {

/// The checkpoints of a run: `step-000001200.safetensors` for the last few, and `best.safetensors`.
class Checkpoints {
 public:
  /// `keep` ≥ 1 of the last ones stay.
  Checkpoints(std::filesystem::path folder, int64_t keep);

  /// Whole or not at all: where it cannot be written, an Error says why and the older ones stay.
  void save(int64_t step, const TensorFile& file);

  /// Removes those that `keep` no longer covers, counted back from this step.
  void prune(int64_t step);

  /// The checkpoint of this step, just saved, is the best so far.
  void mark_best(int64_t step);

  struct Found {
    std::filesystem::path path;
    TensorFile file;
  };
  /// The newest one that is whole. `warn` gets a sentence for each one that is not.
  std::optional<Found> newest(const std::function<void(const std::string&)>& warn) const;

  /// Whether there is a checkpoint of any step, whole or not.
  bool any() const;

  std::filesystem::path file_of(int64_t step) const;
  std::filesystem::path best() const { return folder_ / "best.safetensors"; }

 private:
  std::filesystem::path folder_;
  int64_t keep_;
};

}  // namespace deq::lab
