#pragma once

#include <string>

namespace deq {

/// "2026-11-16T08:30:00Z".
std::string utc_now();

}  // namespace deq
