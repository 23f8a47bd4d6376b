#pragma once

#include <functional>
#include <memory>

#include "commands.h"
#include "progress.h"

// What the subcommands of `deq data` do while they work.

namespace deq::lab::cli {

inline std::function<void(int64_t, int64_t)> shown_by(const std::shared_ptr<ProgressBar>& bar) {
  return [bar](int64_t done, int64_t total) {
    bar->update(done, total, [] { return ProgressBar::Facts{}; });
  };
}

/// The same of work that ends where a signal asks for it.
inline std::function<void(int64_t, int64_t)> shown_and_stopped_by(
    const std::shared_ptr<ProgressBar>& bar) {
  return [show = shown_by(bar)](int64_t done, int64_t total) {
    stop_if_interrupted();
    show(done, total);
  };
}

}  // namespace deq::lab::cli
