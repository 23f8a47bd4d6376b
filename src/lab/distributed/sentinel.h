#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deq/lab/distributed/rank_info.h"

namespace deq::lab::distributed {

/// "rank 2 of 4"
std::string name_of(int64_t rank, int64_t size);
/// "rank 2 of 4", "ranks 1, 2 and 3 of 4"
std::string names_of(const std::vector<int64_t>& ranks, int64_t size);
/// The key under which a rank says that it is there.
std::string beat_key(int64_t rank);
/// The part of the store that belongs to one attempt at this world.
c10::intrusive_ptr<c10d::Store> part_of(c10::intrusive_ptr<c10d::Store> store, int64_t attempt);
/// Writes down why the world ends, unless somebody has done so before; gives what is written.
std::string conclude(c10d::Store& store, const std::string& sentence);

/// What the ranks know of one another outside of their collectives: signs of life, and the verdict,
/// the one sentence that says why the world ends, from whoever could say it first. Both are kept in
/// the store, which only a thread of the sentinel's own talks to: where the store's host is lost,
/// an answer may never come.
class Sentinel {
 public:
  /// `on_verdict` is called once, when this rank hears the verdict: the time to give up what waits.
  Sentinel(const RankInfo& self, c10::intrusive_ptr<c10d::Store> store,
           std::chrono::milliseconds timeout, std::function<void()> on_verdict);
  Sentinel(const Sentinel&) = delete;
  Sentinel& operator=(const Sentinel&) = delete;
  ~Sentinel();

  /// Empty as long as all is well.
  std::string verdict() const;
  /// The verdict on an exchange that failed with `error`: who is gone, or that nobody is.
  std::string explain(const std::string& error);
  /// Tells the others that this rank fails with `error`.
  void report(const std::string& error);
  /// Says that this rank leaves, and ends the thread. Where it hosts the store, waits for the
  /// others to leave first, or to hear the verdict.
  void leave();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace deq::lab::distributed
