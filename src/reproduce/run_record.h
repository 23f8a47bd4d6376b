#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "deq/train/metrics.h"

namespace deq::reproduce {

/// What is known of a run whose training has ended: reproduce.json in its folder.
struct RunRecord {
  std::string checkpoint{};  ///< the checksum of the newest one: what the rest is about
  int64_t parameters = 0;    ///< trained ones
  std::string failure{};     ///< why training stopped before its end; empty where it did not
  std::vector<Metrics> evaluations{};  ///< one a budget; of an explicit network one without

  /// The evaluation with this budget, the one without where there is only that, or null.
  const Metrics* evaluation(int64_t budget) const;

  /// Keeps them in the order of their budgets.
  void add(Metrics evaluation);
};

/// Nothing where there is none, or where it is about another checkpoint than the newest.
std::optional<RunRecord> read_record(const std::filesystem::path& run);

/// Starts the record of a run that has just ended. Throws Error where no checkpoint is whole.
RunRecord new_record(const std::filesystem::path& run, const std::string& failure);

void write_record(const std::filesystem::path& run, const RunRecord& record);

}  // namespace deq::reproduce
