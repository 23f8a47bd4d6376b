#pragma once

#include <optional>

#include "deq/jacobian/frobenius.h"

// What the estimates have in common: random rows, and rows of length one.

namespace deq {

/// The `number`-th probe of every sample, like z.
torch::Tensor draw_probe(const torch::Tensor& z, ProbeDistribution distribution,
                         const ProbeKey& key, int64_t number);

/// From torch's own generator where none is given.
ProbeKey draw_key(const std::optional<at::Generator>& generator);

/// Rows scaled to length 1 (zero rows stay).
torch::Tensor unit_rows(const torch::Tensor& v);

}  // namespace deq
