#include "replay/recording_gate.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace deq {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int passes = 0, waiting = 0, pauses = 0;
  bool recording = false;

  bool free() const { return passes == 0 && !recording; }
};

Gate& gate() {
  static Gate only;
  return only;
}

constexpr std::chrono::seconds kBriefly(1);
thread_local int depth = 0;
thread_local bool records = false;

}  // namespace

PassScope::PassScope() {
  if (depth++ > 0) return;
  auto& own = gate();
  std::unique_lock lock(own.mutex);
  own.changed.wait(lock, [&own] { return !own.recording && own.waiting == 0; });
  ++own.passes;
}

PassScope::~PassScope() {
  if (--depth > 0) return;
  auto& own = gate();
  const std::lock_guard lock(own.mutex);
  --own.passes;
  own.changed.notify_all();
}

bool PassScope::inside() {
  return depth > 0;
}

RecordingPermit::RecordingPermit() {
  if (PassScope::inside()) return;
  auto& own = gate();
  std::unique_lock lock(own.mutex);
  if (own.pauses > 0) return;  // until some backward, perhaps this thread's own
  ++own.waiting;
  granted_ = own.changed.wait_for(lock, kBriefly, [&own] { return own.free(); });
  --own.waiting;
  // A pause may have begun meanwhile.
  granted_ = granted_ && own.pauses == 0;
  if (granted_) {
    own.recording = true;
    records = true;
    ++depth;  // what is recorded is no pass of its own
  } else {
    own.changed.notify_all();
  }
}

RecordingPermit::~RecordingPermit() {
  if (!granted_) return;
  records = false;
  --depth;
  auto& own = gate();
  const std::lock_guard lock(own.mutex);
  own.recording = false;
  own.changed.notify_all();
}

bool RecordingPermit::held() {
  return records;
}

RecordingPause::RecordingPause() {
  const PassScope pass;  // begins when no other thread records
  auto& own = gate();
  const std::lock_guard lock(own.mutex);
  ++own.pauses;
}

RecordingPause::~RecordingPause() {
  auto& own = gate();
  const std::lock_guard lock(own.mutex);
  --own.pauses;
}

}  // namespace deq
