#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (!begun_) begun_ = done;  // a resumed run does not begin at 0
  const double rate = static_cast<double>(done - *begun_) / std::max(seconds, 1e-9);
  const double left = static_cast<double>(total - done) / std::max(rate, 1e-9);
  const int filled = static_cast<int>(kBarWidth * done / total);
  std::cerr << fmt::format("\r\033[K{} [{}{}] {}/{}  {:.3g} steps/s  {} left  {}", label_,
                           std::string(static_cast<size_t>(filled), '#'),
                           std::string(static_cast<size_t>(kBarWidth - filled), '.'), done, total,
                           rate, duration(left), facts())
            << std::flush;
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace deq::cli
