#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

namespace deq::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;

std::string duration(double seconds) {
  const auto whole = std::llround(seconds);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// Rate and time left; nothing where there is nothing to tell them from: at the first step, or
/// where a training that went back stands before it.
std::string estimate(int64_t steps, int64_t left, double seconds) {
  if (steps <= 0 || seconds <= 0) return "";
  const double rate = static_cast<double>(steps) / seconds;
  return fmt::format("  {:.3g} steps/s  {} left", rate, duration(static_cast<double>(left) / rate));
}

}  // namespace

ProgressBar::ProgressBar(std::string label, bool quiet)
    : label_(std::move(label)), shown_(!quiet && isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::update(int64_t done, int64_t total, const std::function<std::string()>& facts) {
  const auto now = Clock::now();
  if (!shown_ || (done < total && now - last_ < kRedrawInterval)) return;
  last_ = now;
  if (!begun_) {  // a resumed run does not begin at 0, nor does its first step come at once
    begun_ = done;
    start_ = now;
  }
  const int filled = static_cast<int>(kBarWidth * done / total);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::cerr << fmt::format("\r\033[K{} [{}{}] {}/{}{}  {}", label_,
                           std::string(static_cast<size_t>(filled), '#'),
                           std::string(static_cast<size_t>(kBarWidth - filled), '.'), done, total,
                           estimate(done - *begun_, total - done, seconds), facts())
            << std::flush;
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace deq::cli
