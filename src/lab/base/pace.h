#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace deq::lab {

/// How fast work goes on, pauses left out. It is told the time.
class Pace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Until the work goes on, its time does not count.
  void pause(Time now) {
    if (!paused_since_) paused_since_ = now;
  }
  void go_on(Time now) {
    if (paused_since_) paused_ += now - *std::exchange(paused_since_, std::nullopt);
  }

  /// Per second since the first call. Nothing where there is nothing to tell it from: at that call,
  /// or where work that went back stands before it.
  std::optional<double> rate(int64_t done, Time now) {
    if (!begun_) {  // a resumed run does not begin at 0, nor does its first step come at once
      begun_ = done;
      start_ = now;
      paused_ = {};
    }
    const auto count = static_cast<double>(done - *begun_);
    const double seconds = std::chrono::duration<double>(now - start_ - paused_).count();
    if (count <= 0 || seconds <= 0) return std::nullopt;
    return count / seconds;
  }

 private:
  std::optional<int64_t> begun_;
  Time start_{};
  std::optional<Time> paused_since_;
  std::chrono::steady_clock::duration paused_{};
};

}  // namespace deq::lab
