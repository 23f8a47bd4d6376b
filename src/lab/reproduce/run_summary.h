#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "deq/lab/runs/metrics.h"

namespace deq::lab::reproduce {

/// What is known of a run whose training has ended: reproduce.json in its folder.
struct RunSummary {
  std::string checkpoint{};  ///< the checksum of the newest one: what the rest is about
  int64_t parameters = 0;    ///< trained ones
  std::string failure{};     ///< why training stopped before its end; empty where it did not
  std::vector<Metrics> evaluations{};  ///< one per budget; of an explicit network one without

  /// The evaluation with this budget, the one without where there is only that, or null.
  const Metrics* evaluation(int64_t budget) const;

  /// Keeps them in the order of their budgets.
  void add(Metrics evaluation);
};

/// Nothing where there is none, or where it is about another checkpoint than the newest.
std::optional<RunSummary> read_summary(const std::filesystem::path& run);

/// Starts the summary of a run that has just ended. Throws Error where no checkpoint is whole.
RunSummary new_summary(const std::filesystem::path& run, const std::string& failure);

void write_summary(const std::filesystem::path& run, const RunSummary& summary);

}  // namespace deq::lab::reproduce
