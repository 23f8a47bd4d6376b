#pragma once

#include <string>

namespace deq::distributed {

/// Where two different texts begin to differ: line 3 is "b = 2", on rank 0 "b = 1".
std::string first_difference(const std::string& rank_0, const std::string& other);

}  // namespace deq::distributed
