#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "deq/adjoint/options.h"
#include "replay/recorded_step.h"
#include "replay/replayed_function.h"

namespace deq {

struct UnrolledSteps {
  torch::Tensor z;       ///< after the last step, with its graph
  torch::Tensor f_of_z;  ///< one step further, without
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
  // By the number of steps and of those without gradient.
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<ReplayedFunction>> by_steps_;
};

}  // namespace deq
