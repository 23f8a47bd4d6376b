#include "lab/distributed/sentinel.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace deq::lab::distributed {
namespace {

using SentinelClock = std::chrono::steady_clock;

constexpr auto kBeat = std::chrono::milliseconds(500);
constexpr auto kLook = std::chrono::milliseconds(50);  // between two looks for who is gone
constexpr auto kSilence = std::chrono::seconds(5);     // after which a rank counts as gone
constexpr auto kFarewell = 3 * kBeat;                  // for every rank to hear a verdict
constexpr auto kVerdict = "verdict";

std::string left_key(int64_t rank) {
  return fmt::format("left/{}", rank);
}

}  // namespace

std::string name_of(int64_t rank, int64_t size) {
  return fmt::format("rank {} of {}", rank, size);
}

std::string names_of(const std::vector<int64_t>& ranks, int64_t size) {
  if (ranks.size() == 1) return name_of(ranks.front(), size);
  std::string names = "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) names += i + 1 == ranks.size() ? " and " : ", ";
    names += std::to_string(ranks[i]);
  }
  return fmt::format("{} of {}", names, size);
}

std::string beat_key(int64_t rank) {
  return fmt::format("beat/{}", rank);
}

c10::intrusive_ptr<c10d::Store> part_of(c10::intrusive_ptr<c10d::Store> store, int64_t attempt) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("deq/{}", attempt), std::move(store));
}

std::string conclude(c10d::Store& store, const std::string& sentence) {
  return store.compareSet(kVerdict, "", sentence);
}

struct Sentinel::State {
  const RankInfo self;
  const c10::intrusive_ptr<c10d::Store> store;
  const std::chrono::milliseconds timeout;
  std::thread thread;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::string verdict;
  std::function<void()> on_verdict;    // until it was called
  std::optional<std::string> report;   // of this rank, not yet passed on
  std::optional<std::string> failure;  // of an exchange, not yet explained
  bool leaving = false, done = false;

  // The thread's own: when each other rank's beat was first seen as it is.
  struct Seen {
    int64_t beat;
    SentinelClock::time_point since;
  };
  std::map<int64_t, Seen> seen;

  State(const RankInfo& its_rank, c10::intrusive_ptr<c10d::Store> its_store,
        std::chrono::milliseconds its_timeout, std::function<void()> callback)
      : self(its_rank),
        store(std::move(its_store)),
        timeout(its_timeout),
        on_verdict(std::move(callback)) {}

  bool hosts_store() const { return self.rank == 0 && !self.store_is_hosted; }

  void announce(const std::string& sentence) {
    std::function<void()> act;
    {
      const std::lock_guard lock(mutex);
      if (!verdict.empty()) return;
      verdict = sentence;
      act = std::exchange(on_verdict, nullptr);
    }
    changed.notify_all();
    if (act) act();
  }

  /// The others that have not left, with the time since which nothing was heard of them.
  std::map<int64_t, SentinelClock::time_point> look() {
    std::map<int64_t, SentinelClock::time_point> silent_since;
    for (int64_t rank = 0; rank < self.size; ++rank) {
      if (rank == self.rank || store->check({left_key(rank)})) continue;
      const auto beat = store->add(beat_key(rank), 0);
      const auto now = SentinelClock::now();
      auto& last = seen.try_emplace(rank, Seen{beat, now}).first->second;
      if (last.beat != beat) last = {beat, now};
      silent_since[rank] = last.since;
    }
    return silent_since;
  }

  /// Nothing until it is clear who is gone, or that nobody is.
  std::optional<std::string> search(const std::string& error, SentinelClock::time_point began) {
    const auto silent_since = look();
    std::vector<int64_t> left, gone;
    bool all_alive = true;
    for (int64_t rank = 0; rank < self.size; ++rank) {
      if (rank == self.rank) continue;
      const auto since = silent_since.find(rank);
      if (since == silent_since.end()) {
        left.push_back(rank);
      } else {
        if (SentinelClock::now() - since->second >= kSilence) gone.push_back(rank);
        all_alive = all_alive && since->second > began;
      }
    }
    if (!left.empty())
      return fmt::format("{} left before the others did", names_of(left, self.size));
    if (!gone.empty()) {
      return fmt::format("{}{} gone (no sign of life for {} s)", names_of(gone, self.size),
                         gone.size() == 1 ? " is" : " are", kSilence.count());
    }
    if (!all_alive) return std::nullopt;
    return fmt::format("{} could not exchange data with the others, which are all alive: {}",
                       name_of(self.rank, self.size), error);
  }

  std::optional<std::string> take_report() {
    const std::lock_guard lock(mutex);
    return std::exchange(report, std::nullopt);
  }

  std::optional<std::string> failure_to_explain() const {
    const std::lock_guard lock(mutex);
    return verdict.empty() ? failure : std::nullopt;
  }

  bool has_verdict() const {
    const std::lock_guard lock(mutex);
    return !verdict.empty();
  }

  void stay_for_the_others() {
    const auto began = SentinelClock::now();
    while (SentinelClock::now() - began < (has_verdict() ? kFarewell : timeout)) {
      bool alone = true;
      for (const auto& [rank, since] : look())
        alone = alone && SentinelClock::now() - since >= kSilence;
      if (alone) return;
      std::this_thread::sleep_for(kLook);
    }
  }

  void watch() {
    std::optional<SentinelClock::time_point> began_to_search;
    for (;;) {
      store->add(beat_key(self.rank), 1);
      if (const auto error = take_report()) {
        announce(
            conclude(*store, fmt::format("{} failed: {}", name_of(self.rank, self.size), *error)));
      }
      if (store->check({kVerdict})) announce(store->get_to_str(kVerdict));
      const auto error = failure_to_explain();
      if (error) {
        if (!began_to_search) {
          look();  // what the beats are before any that would show life
          began_to_search = SentinelClock::now();
        }
        if (const auto found = search(*error, *began_to_search)) announce(conclude(*store, *found));
      }
      std::unique_lock lock(mutex);
      changed.wait_for(lock, error ? kLook : kBeat,
                       [&] { return leaving || report || (!error && failure && verdict.empty()); });
      if (leaving && !report) break;
    }
    store->set(left_key(self.rank), "");
    if (hosts_store()) stay_for_the_others();
  }

  void live() {
    try {
      watch();
    } catch (const std::exception&) {
      announce(self.store_is_hosted
                   ? "the launcher that hosts the store is gone"
                   : name_of(0, self.size) + " is gone, and with it the store that it hosts");
    }
    {
      const std::lock_guard lock(mutex);
      done = true;
      report.reset();
    }
    changed.notify_all();
  }
};

Sentinel::Sentinel(const RankInfo& self, c10::intrusive_ptr<c10d::Store> store,
                   std::chrono::milliseconds timeout, std::function<void()> on_verdict)
    : state_(std::make_shared<State>(self, std::move(store), timeout, std::move(on_verdict))) {
  state_->thread = std::thread([state = state_] { state->live(); });
}

Sentinel::~Sentinel() {
  leave();
}

void Sentinel::leave() {
  if (!state_->thread.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->leaving = true;
  state_->changed.notify_all();
  // A store that no longer answers holds the thread, which then ends with the process.
  const auto patience = state_->hosts_store() ? state_->timeout + kSilence : kSilence;
  const bool done = state_->changed.wait_for(lock, patience, [&] { return state_->done; });
  state_->on_verdict = nullptr;
  lock.unlock();
  if (done) {
    state_->thread.join();
  } else {
    state_->thread.detach();
  }
}

std::string Sentinel::verdict() const {
  const std::lock_guard lock(state_->mutex);
  return state_->verdict;
}

std::string Sentinel::explain(const std::string& error) {
  std::unique_lock lock(state_->mutex);
  state_->failure = error;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kSilence + 4 * kBeat, [&] { return !state_->verdict.empty(); });
  if (!state_->verdict.empty()) return state_->verdict;
  lock.unlock();
  state_->announce(state_->self.store_is_hosted
                       ? std::string("the launcher that hosts the store does not answer")
                       : name_of(0, state_->self.size) + " is gone (its store does not answer)");
  return verdict();
}

void Sentinel::report(const std::string& error) {
  std::unique_lock lock(state_->mutex);
  if (!state_->verdict.empty() || state_->done) return;
  state_->report = error;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kSilence, [&] { return !state_->verdict.empty(); });
}

}  // namespace deq::lab::distributed
