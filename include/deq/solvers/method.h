#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

#include "deq/solvers/options.h"
#include "deq/solvers/solver.h"

namespace deq {

/// Slabs [B, D] that live from one solve to the next. A slab is free again when nobody else refers
/// to it, so histories are plain lists of tensors and nothing is ever returned by hand.
class SlabPool {
 public:
  /// Drops the slabs when the shape, type or device differs from what it holds.
  void reset_like(const torch::Tensor& like);
  /// An uninitialised slab.
  torch::Tensor take();
  /// Stops reusing this slab: it now belongs to someone else.
  void give_away(const torch::Tensor& slab);

 private:
  std::vector<torch::Tensor> slabs_;
  std::vector<int64_t> sizes_;
  torch::TensorOptions options_;
};

/// How the driver judges an iterate. The tries of one line search count as one iterate for every
/// sample, however many another sample needs.
enum class Evaluate {
  Iterate,   ///< a sample that is non-finite or has run away is stopped
  Trial,     ///< the first of a line search, which still decides about it
  Retrial,   ///< another of the same step
  LastTrial  ///< another, and taken as it is
};

/// One solve in progress, as its method sees it. The driver owns the budget, the convergence test,
/// the frozen samples, the best iterates, the trace and the callback.
class Iteration {
 public:
  Iteration(const Problem& problem, const SolverOptions& options, const Callback& callback,
            SlabPool& pool);
  ~Iteration();
  Iteration(const Iteration&) = delete;
  Iteration& operator=(const Iteration&) = delete;

  int64_t batch() const;
  int64_t dim() const;
  const torch::Tensor& z() const;  ///< the current iterate
  const torch::Tensor& f() const;  ///< f(z)
  const torch::Tensor& g() const;  ///< f(z) − z

  /// Samples that still move. A method leaves the z of all others as it is.
  bool active(int64_t sample) const;
  /// ‖g‖ of the current iterate (of the whole batch under NormScope::WholeBatch), and the smallest.
  double residual(int64_t sample) const;
  double best_residual(int64_t sample) const;
  /// This sample's own ‖g‖².
  double squared_norm(int64_t sample) const;
  /// g·rows[i] of the last move_to, and all of them.
  double dot(int64_t sample, int64_t row) const;
  const double* dots(int64_t sample) const;

  /// Something left to do: a sample is active and the budget is not spent.
  bool running() const;
  /// Evaluations left in the budget.
  int64_t remaining() const;

  /// Evaluates f at a new iterate and observes it. `rows` are slabs whose dots with the new g the
  /// method wants. Must only be called while running().
  void move_to(const torch::Tensor& z, torch::TensorList rows = {},
               Evaluate kind = Evaluate::Iterate);

  /// Evaluates f at a point that is no candidate. Must only be called while running().
  torch::Tensor probe(const torch::Tensor& z);
  /// J(z)·v at the current iterate if the problem has it (counted as an evaluation), else
  /// undefined.
  torch::Tensor jacobian_product(const torch::Tensor& v);

  torch::Tensor slab();  ///< an uninitialised slab [B, D]
  Report& report();      ///< for the counts of restarts and rejections

  Solution finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One way to choose the next iterate. A method keeps its history between steps, and its memory
/// between solves.
class Method {
 public:
  virtual ~Method() = default;
  /// A new solve: forget everything.
  virtual void begin() = 0;
  /// From the current iterate, already observed, move on with move_to.
  virtual void step(Iteration& iteration) = 0;
  /// At the end of a solve: what it has come to know of (I − J)⁻¹. Null where it builds no inverse.
  virtual std::shared_ptr<const SecantInverse> inverse(const Iteration& /*iteration*/) const {
    return nullptr;
  }
};

}  // namespace deq
