#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

#include "progress_line.h"

namespace deq::lab::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

std::string duration(double seconds) {
  const auto whole = std::llround(seconds);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// A dumb terminal shows escapes as they are.
bool can_redraw() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

}  // namespace

ProgressBar::ProgressBar(std::string label, std::string unit, bool quiet)
    : label_(std::move(label)), unit_(std::move(unit)), shown_(!quiet && can_redraw()) {}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::update(int64_t done, int64_t total, const std::function<Facts()>& facts) {
  const auto now = std::chrono::steady_clock::now();
  pace_.go_on(now);
  if (!shown_ || (done < total && now - last_ < kRedrawInterval)) return;
  last_ = now;
  auto [phase, figures] = facts();
  std::vector<std::string> all;
  if (!phase.empty()) all.push_back(std::move(phase));
  if (const auto rate = pace_.rate(done, now)) {
    all.push_back(fmt::format("{:.3g} {}/s", *rate, unit_));
    all.push_back(fmt::format("{} left", duration(static_cast<double>(total - done) / *rate)));
  }
  for (auto& text : figures) all.push_back(std::move(text));
  draw(done, total, all);
}

void ProgressBar::pause(int64_t done, int64_t total, const std::string& phase) {
  if (!shown_) return;
  pace_.pause(std::chrono::steady_clock::now());
  draw(done, total, {phase});
}

void ProgressBar::draw(int64_t done, int64_t total, const std::vector<std::string>& facts) {
  std::cerr << "\r\033[K" + progress_line(label_, done, total, facts, terminal_columns())
            << std::flush;
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

}  // namespace deq::lab::cli
