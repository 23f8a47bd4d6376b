#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

#include "deq/core/replay.h"

namespace deq {

class RecordedFunction;

/// A part of a model that is a function of its inputs, of which the first is defined, of its
/// modules and of a key, and of nothing else: on a GPU replayed as a graph from the second call
/// with the same shapes on, elsewhere evaluated. Statistics that modules keep, such as those of a
/// batch norm, are kept once per call either way.
class ReplayedFunction {
 public:
  using Tensors = std::vector<torch::Tensor>;
  using Function = std::function<torch::Tensor(const Tensors&)>;

  ReplayedFunction(std::vector<std::shared_ptr<torch::nn::Module>> modules, Function function);
  ~ReplayedFunction();
  ReplayedFunction(const ReplayedFunction&) = delete;
  ReplayedFunction& operator=(const ReplayedFunction&) = delete;

  torch::Tensor operator()(const Tensors& inputs, Replay replay = Replay::Automatic,
                           const ReplayKey& key = {}, bool* was_replayed = nullptr);

 private:
  struct Cache;
  std::shared_ptr<RecordedFunction> record(const Tensors& inputs, Replay replay,
                                           const ReplayKey& key);

  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  Function function_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace deq
