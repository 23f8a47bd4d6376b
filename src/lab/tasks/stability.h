#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "deq/lab/runs/metrics.h"
#include "deq/nn/equilibrium.h"

namespace deq::lab {

/// On how many validation samples stability is measured, where there are so many.
inline constexpr int64_t kStabilitySamples = 64;

/// The equilibria of one part of these samples; none from an explicit network.
using StabilityPass = std::function<std::vector<Equilibrated>(int64_t part)>;

/// For states too large for a dense Jacobian: ‖J‖_F, estimated, and ρ at the states where solves
/// end, means over the samples, and the way of the first part's solve. Then, named training_…,
/// residual, ‖J‖_F and ρ of the map that training steps solve, with dropout and batch statistics.
/// `solver` is what the equilibria are found with; from random starts it also finds how far they
/// depend on where a solve begins. The model is in eval mode before and after, with the same
/// buffers.
Metrics stability_metrics(torch::nn::Module& model, int64_t seed, int64_t parts,
                          const SolverOptions& solver, const StabilityPass& pass);

}  // namespace deq::lab
