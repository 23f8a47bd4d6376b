#pragma once

#include "reproduce_plan.h"

namespace deq::cli {

/// What can be reproduced, and what each costs: a table on standard output, or JSON lines.
void list_exhibits(const std::filesystem::path& recipes, bool json);

}  // namespace deq::cli
