#pragma once

#include <memory>
#include <utility>

#include "deq/lab/distributed/world.h"
#include "deq/models/transformer/tensor_parallel.h"

namespace deq::lab {

/// All processes of a world as those that hold one model's layers in parts.
class WorldParallel final : public models::TensorParallel {
 public:
  explicit WorldParallel(std::shared_ptr<World> world) : world_(std::move(world)) {}

  int64_t rank() const override { return world_->rank(); }
  int64_t size() const override { return world_->size(); }
  void sum(const torch::Tensor& tensor) override { world_->sum(tensor); }

 private:
  std::shared_ptr<World> world_;
};

}  // namespace deq::lab
