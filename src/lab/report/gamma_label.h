#pragma once

#include <string>

#include "deq/lab/settings/parts.h"

namespace deq::lab {

/// γ over a whole training in a few words: "2", "0.2 → 1", "from 0.2, steered to ρ = 0.8".
std::string describe_gamma(const JacobianConfig& jacobian);

}  // namespace deq::lab
