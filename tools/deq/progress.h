#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace deq::cli {

/// A bar with rate and time left on a terminal; elsewhere nothing, so that logs stay readable.
/// Writes to standard error: standard output holds results only.
class ProgressBar {
 public:
  ProgressBar(std::string label, bool quiet);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// `facts` is what stands behind the bar.
  void update(int64_t done, int64_t total, const std::function<std::string()>& facts);
  /// Takes the bar off the screen, so that a line can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool shown_;
  bool drawn_ = false;
  std::optional<int64_t> begun_;
  Clock::time_point start_{}, last_{};
};

}  // namespace deq::cli
