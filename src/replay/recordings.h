#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "replay/recording_gate.h"
#include "replay/signature.h"

namespace deq {

/// Says why something is evaluated where it could be faster; once, however often it is told.
class RefusalNotice {
 public:
  void tell(const std::exception& error);

 private:
  std::atomic<bool> told_ = false;
};

/// What has become of the recordings of this process.
struct RecordingCounts {
  int64_t made = 0, refused = 0;
  std::string why{};  ///< the last one was refused
};
RecordingCounts recording_counts();
void count_recording();

/// Recordings by what they are for, at most four. May be used from several threads.
///
/// A signature is recorded when it comes for the second time, as long as there is room. Whatever
/// comes later takes the place of the one that has not been used for longest, but has to come twice
/// as often for each time that this has happened: with more shapes than there is room for, some are
/// replayed and the others are evaluated.
template <class Recorded>
class Recordings {
 public:
  /// Adds a module of those that are recorded to a signature.
  void add(const torch::nn::Module& module, RecordingSignature& signature) {
    states_.add(module, signature);
  }

  /// For what is recorded later on in one of them.
  const std::shared_ptr<RefusalNotice>& notice() const { return notice_; }

  /// One for the caller alone, until the last reference goes; `make` makes it. None where the
  /// signature is not to be recorded (yet), and where it cannot be.
  std::shared_ptr<Recorded> lend(const RecordingSignature& signature,
                                 const std::function<std::shared_ptr<Recorded>()>& make) {
    const std::lock_guard lock(mutex_);
    if (auto free = find_free(signature)) return free;
    if (seen_.size() > kMostSignatures) seen_.clear();
    auto& times = seen_[signature];
    if (times == kRefused || ++times < kReturns || !may_have_room(times)) return nullptr;
    const RecordingPermit permit;
    if (!permit) return nullptr;
    make_room();
    try {
      entries_.push_front({signature, make()});
      count_recording();
      return entries_.front().recorded;
    } catch (const std::exception& error) {
      seen_[signature] = kRefused;  // it may have been forgotten to make room
      notice_->tell(error);
      return nullptr;
    }
  }

 private:
  static constexpr size_t kMost = 4;               // each holds the memory of a pass with its graph
  static constexpr size_t kMostSignatures = 1024;  // before they are forgotten
  static constexpr int64_t kReturns = 2;
  static constexpr int64_t kMostPatience = 1 << 20;
  static constexpr int64_t kRefused = -1;

  struct Entry {
    RecordingSignature signature;
    std::shared_ptr<Recorded> recorded;  // nobody else holds it while it is free
    bool free() const { return recorded.use_count() == 1; }
  };

  std::shared_ptr<Recorded> find_free(const RecordingSignature& signature) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!entry->free() || entry->signature != signature) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      return entries_.front().recorded;
    }
    return nullptr;
  }

  bool may_have_room(int64_t times) const {
    if (entries_.size() < kMost) return true;
    return times >= patience_ && std::any_of(entries_.begin(), entries_.end(),
                                             [](const Entry& entry) { return entry.free(); });
  }

  void make_room() {
    if (entries_.size() < kMost) return;
    for (auto entry = entries_.end(); entry != entries_.begin();) {
      if (!(--entry)->free()) continue;
      seen_.erase(entry->signature);
      entries_.erase(entry);
      patience_ = std::min(2 * patience_, kMostPatience);
      return;
    }
  }

  ModuleStates states_;
  std::mutex mutex_;
  std::list<Entry> entries_;                    // the one used last comes first
  std::map<RecordingSignature, int64_t> seen_;  // how often each has come without being replayed
  int64_t patience_ = 2 * kReturns;
  std::shared_ptr<RefusalNotice> notice_ = std::make_shared<RefusalNotice>();
};

}  // namespace deq
