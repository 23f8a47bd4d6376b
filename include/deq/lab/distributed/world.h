#pragma once

#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "deq/lab/distributed/rank_info.h"

namespace deq::lab {

/// The processes that train together. A single process needs no network, and every call is then
/// free. Several make the same calls in the same order on every rank.
///
/// A rank that is lost takes the others down: what they wait for throws an Error that names it,
/// within seconds when its process has ended, a few seconds after the timeout when it only hangs.
class World {
 public:
  static std::shared_ptr<World> alone();
  /// Meets the other ranks; over Gloo for the CPU, over NCCL for a GPU, which each rank has for
  /// itself. `timeout` bounds the meeting and every wait afterwards.
  static std::shared_ptr<World> join(const RankInfo& self, torch::Device device,
                                     std::chrono::seconds timeout = std::chrono::minutes(10));

  /// The ranks of a world in rows of so many: the world of this rank's row, and that of the ranks
  /// at its place in all rows. Every rank calls it; `columns` divides the world's size.
  struct Grid {
    std::shared_ptr<World> row, column;
  };
  static Grid grid(const std::shared_ptr<World>& world, int64_t columns);

  World(const World&) = delete;
  World& operator=(const World&) = delete;
  /// Rank 0 may host what the others meet at: it then waits for them to leave before it does.
  ~World();

  int64_t rank() const { return self_.rank; }
  int64_t size() const { return self_.size; }
  bool is_main() const { return self_.rank == 0; }

  /// Adds up over all ranks, in place. The tensor is on the world's device.
  void sum(const torch::Tensor& tensor);
  /// Overwrites the tensor with that of rank `from`.
  void broadcast(const torch::Tensor& tensor, int64_t from = 0);
  /// Returns when all ranks have called it. Before a checkpoint, it makes sure that no rank was
  /// lost in the steps it holds.
  void barrier();
  /// Throws on every rank, with the ranks and the first line that differ, unless all pass the same
  /// text. `what` names it: "the configuration".
  void require_same(const std::string& what, const std::string& text);
  /// Runs `work`. An exception that leaves it is reported to the other ranks, so that they can
  /// repeat it, and rethrown. All that is done together belongs in here.
  void run(const std::function<void()>& work);

 private:
  friend class GradientAverager;
  struct Links;
  World(const RankInfo& self, std::unique_ptr<Links> links);
  /// Of some of a world's ranks, which all give it the same name.
  static std::shared_ptr<World> among(const std::shared_ptr<World>& world, const std::string& name,
                                      int64_t rank, int64_t size);

  RankInfo self_;
  std::unique_ptr<Links> links_;  // null for a world of one
};

}  // namespace deq::lab
