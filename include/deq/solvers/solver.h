#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>

#include "deq/core/report.h"
#include "deq/solvers/options.h"

namespace deq {

class Method;

/// z → f(z) on a slab [B, D]. A tensor that f returned must not be overwritten by a later call,
/// unless the problem says that it will be.
using Map = std::function<torch::Tensor(const torch::Tensor& z)>;

/// (z, v) → J(z)·v. Only NewtonKrylov asks for it; without it, it takes differences of f.
using JacobianProduct =
    std::function<torch::Tensor(const torch::Tensor& z, const torch::Tensor& v)>;

/// What a callback sees after each observed iterate.
struct Progress {
  const torch::Tensor& z;  ///< the iterate
  const torch::Tensor& f;  ///< f(z)
  const TracePoint& point;
};

/// Called after each observed iterate; false stops the solve with Status::UserStopped.
using Callback = std::function<bool(const Progress&)>;

/// z = f(z), with what is known about f.
struct Problem {
  Map f;
  JacobianProduct jacobian_product{};
  /// Where f would copy its argument to: a solve on a GPU keeps its iterate there.
  torch::Tensor z_buffer{};
  bool overwrites_results = false;  ///< each evaluation overwrites what the one before it returned
  /// f at the start, where it is known. It is no evaluation then, and the start no result: where
  /// all that follows fails, this is.
  torch::Tensor f_of_start{};
  /// Whether the solution brings the inverse that the method has built, if it builds one.
  bool keeps_inverse = false;
};

/// (I − J)⁻¹ as a solve came to know it on its way, one for every sample. It keeps the solve's
/// history alive.
class SecantInverse {
 public:
  virtual ~SecantInverse() = default;
  /// g (I − J)⁻¹ [B, D], approximately, without a product with J.
  virtual torch::Tensor left_product(const torch::Tensor& g) const = 0;
};

struct Solution {
  torch::Tensor z;  ///< [B, D], for every sample the iterate with its smallest residual
  Report report;
  std::shared_ptr<const SecantInverse> inverse{};  ///< where it was asked for, Broyden's; else null
};

/// A fixed-point solver for batches of problems z = f(z). It may be used from several threads at
/// once: each solve takes a workspace of its own, and gives it back for the next.
class Solver {
 public:
  explicit Solver(const SolverOptions& options);

  /// A method of your own, run by the same driver. `options` gives tolerance, budget and guards.
  Solver(std::function<std::unique_ptr<Method>()> make_method, const SolverOptions& options);

  /// Solves from z0 [B, D], float32 or float64, on any device. Builds no autograd graph. On a GPU,
  /// and without a callback, Picard, Anderson and Broyden decide everything on the device; f is
  /// then enqueued without a wait for its value.
  Solution solve(const Problem& problem, const torch::Tensor& z0,
                 const Callback& callback = {}) const;

  const SolverOptions& options() const { return options_; }

 private:
  class Workspaces;
  SolverOptions options_;
  bool own_method_;  // the options name no method
  std::shared_ptr<Workspaces> workspaces_;
};

}  // namespace deq
