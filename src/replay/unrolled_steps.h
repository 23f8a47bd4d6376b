#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "deq/adjoint/options.h"
#include "replay/recorded_step.h"
#include "replay/replayed_function.h"

namespace deq {

struct UnrolledSteps {
  torch::Tensor z;  ///< after the last step, with its graph
  /// One step away from z, without: further where `Unrolled::measured`, else before it.
  torch::Tensor neighbour;
  bool replayed = false;
};

UnrolledSteps unrolled_steps(const BoundStep& f, torch::Tensor z, const Unrolled& how);

/// The same, replayed as one graph from the second call with the same shapes on.
class ReplayedSteps {
 public:
  UnrolledSteps operator()(const std::shared_ptr<Cell>& cell, const Inputs& inputs, const State& z0,
                           const Unrolled& how, Replay replay, const ReplayKey& key);
  /// Gives back their memory, as soon as no pass needs it any more.
  void forget();

 private:
  std::mutex mutex_;
  // By the number of steps, of those without gradient, and by whether they are measured.
  std::map<std::tuple<int64_t, int64_t, bool>, std::shared_ptr<ReplayedFunction>> by_steps_;
};

}  // namespace deq
