#pragma once

#include <concepts>
#include <functional>
#include <utility>

#include "deq/nn/equilibrium.h"

namespace deq {

/// The fixed point of any function of a list of tensors. See below.
Equilibrated fixed_point(std::function<State(const State&)> f, const State& z0,
                         const EquilibriumOptions& options = {});

/// The fixed point z* = f(z*) of any callable, solved from z0 [B, …] and differentiated as
/// `options` say. Gradients reach whatever f uses: parameters, inputs and all else that it has
/// captured. The samples of a batch must be independent of each other. f is called without autograd
/// during the solve and with it at z*, and with Implicit::twice, Reversible and linearization()
/// also later, in backward for one: so it must not refer to what is gone by then, must leave z as
/// it is, and must give the same result for the same z throughout (a dropout mask is drawn before).
template <class Function>
requires std::convertible_to<std::invoke_result_t<Function&, const torch::Tensor&>, torch::Tensor>
    Equilibrated fixed_point(Function f, const torch::Tensor& z0,
                             const EquilibriumOptions& options = {}) {
  return fixed_point([f = std::move(f)](const State& z) mutable { return State{f(z[0])}; },
                     State{z0}, options);
}

}  // namespace deq
