#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "deq/io/event_file.h"
#include "deq/io/json_lines.h"
#include "deq/train/metrics.h"

namespace deq {

/// Writes metrics where people look for them: metrics.jsonl and TensorBoard event files.
class Recorder {
 public:
  /// In a new or in an older run folder.
  explicit Recorder(std::filesystem::path run);

  /// One line, with its `step` and `split`.
  void record(const Metrics& line);

  /// Forgets all lines after a step: the run goes on from there.
  void rewind(int64_t step);

 private:
  std::filesystem::path run_;
  std::unique_ptr<JsonLines> lines_;
  EventFile events_;
};

}  // namespace deq
