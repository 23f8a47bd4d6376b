#pragma once

#include <optional>
#include <string>

#include "reproduce_plan.h"

namespace deq::lab::cli {

/// Which exhibits and scales are listed.
struct Selection {
  std::string name{};                       ///< empty: all
  std::optional<reproduce::Scale> scale{};  ///< nothing: all
};

/// What can be reproduced, and what each costs: a table on standard output, or JSON lines. Throws
/// UsageError for a name that does not exist, at this scale or at all.
void list_exhibits(const std::filesystem::path& recipes, const Selection& selection, bool json);

}  // namespace deq::lab::cli
