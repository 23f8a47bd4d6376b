#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "deq/lab/io/json_lines.h"
#include "deq/lab/runs/metrics.h"
#include "lab/io/event_file.h"

namespace deq::lab {

/// Writes metrics where people look for them: metrics.jsonl and TensorBoard event files.
class MetricsWriter {
 public:
  /// In a new or in an older run folder.
  explicit MetricsWriter(std::filesystem::path run);

  /// One line, with its `step` and `split`.
  void write(const Metrics& line);

  /// Forgets all lines after a step: the run goes on from there.
  void rewind(int64_t step);

 private:
  std::filesystem::path run_;
  std::unique_ptr<JsonLines> lines_;
  EventFile events_;
};

}  // namespace deq::lab
