#pragma once

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <optional>

#include "deq/core/linearization.h"
#include "deq/jacobian/frobenius.h"

namespace deq {

/// Random probes that power steps v ← vᵀJ/‖vᵀJ‖ turn towards the directions in which J grows most.
struct PowerProbes {
  int64_t steps = 1;   ///< k ≥ 0, each one product with J
  Hutchinson start{};  ///< how many probes, and what they are drawn from
};

void validate(const PowerProbes& options);

/// The squared gain ‖vᵀJ‖²/‖v‖² of every sample, [B], the mean over its probes v after their power
/// steps. Without steps its mean is ‖J‖²_F/D; with more it goes to ρ(J)² where one real eigenvalue
/// dominates or J is normal. It never exceeds ‖J‖₂², and is 0 where the steps end in a zero. With
/// `differentiable` it has a graph to everything J depends on except z; v is a constant of it.
torch::Tensor squared_gain(const Linearization& at, const PowerProbes& options, const ProbeKey& key,
                           bool differentiable = false);

/// The same with a key drawn from `generator`, or from torch's own.
torch::Tensor squared_gain(const Linearization& at, const PowerProbes& options = {},
                           std::optional<at::Generator> generator = {},
                           bool differentiable = false);

/// A penalty on the spectral radius rather than on the whole norm, differentiable: the batch mean
/// of the squared gain. There is no division by D, so γ is another than jacobian_penalty()'s.
torch::Tensor spectral_penalty(const Linearization& at, const PowerProbes& options,
                               const ProbeKey& key);
torch::Tensor spectral_penalty(const Linearization& at, const PowerProbes& options = {},
                               std::optional<at::Generator> generator = {});

}  // namespace deq
