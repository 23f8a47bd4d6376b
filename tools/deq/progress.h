#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/base/pace.h"

namespace deq::lab::cli {

/// A bar with rate and time left on a terminal that can redraw a line; elsewhere nothing, so that
/// logs stay readable. Writes to standard error: standard output holds results only.
class ProgressBar {
 public:
  /// `unit` is what is counted: "steps".
  ProgressBar(std::string label, std::string unit, bool quiet);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  struct Facts {
    std::string phase{};
    std::vector<std::string> figures{};  ///< the most important first
  };
  void update(int64_t done, int64_t total, const std::function<Facts()>& facts);

  /// Something else goes on until the next update, whose time is no part of the rate.
  void pause(int64_t done, int64_t total, const std::string& phase);

  /// Takes the bar off the screen, so that a line can be printed.
  void clear();

 private:
  void draw(int64_t done, int64_t total, const std::vector<std::string>& facts);

  std::string label_, unit_;
  bool shown_;
  bool drawn_ = false;
  Pace pace_;
  Pace::Time last_{};
};

}  // namespace deq::lab::cli
