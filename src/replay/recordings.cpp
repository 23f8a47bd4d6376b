#include "replay/recordings.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace deq {
namespace {

struct Counts {
  std::mutex mutex;
  RecordingCounts counts;
};

Counts& process_counts() {
  static Counts only;
  return only;
}

/// Without torch's stack trace and its advice.
std::string first_line(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string_view text =
      torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

void RefusalNotice::tell(const std::exception& error) {
  const auto why = first_line(error);
  {
    auto& process = process_counts();
    const std::lock_guard lock(process.mutex);
    ++process.counts.refused;
    process.counts.why = why;
  }
  if (told_.exchange(true)) return;
  TORCH_WARN(
      "a part of an equilibrium model cannot be replayed as a graph and is evaluated step by "
      "step: ",
      why);
}

RecordingCounts recording_counts() {
  auto& process = process_counts();
  const std::lock_guard lock(process.mutex);
  return process.counts;
}

void count_recording() {
  auto& process = process_counts();
  const std::lock_guard lock(process.mutex);
  ++process.counts.made;
}

}  // namespace deq
