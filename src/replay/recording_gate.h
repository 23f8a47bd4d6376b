#pragma once

namespace deq {

/// While one thread records work that draws random numbers, torch takes all that the process draws
/// on that GPU for the recording's. So recordings are made while no pass of another thread is under
/// way.

/// One pass, evaluated or replayed. Passes inside a pass belong to it.
class PassScope {
 public:
  PassScope();
  ~PassScope();
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

  /// Whether this thread is inside one.
  static bool inside();
};

/// The right to record. It is not granted to a thread inside a pass, which would wait for itself,
/// and only briefly waited for: what cannot be recorded now is evaluated.
class RecordingPermit {
 public:
  RecordingPermit();
  ~RecordingPermit();
  RecordingPermit(const RecordingPermit&) = delete;
  RecordingPermit& operator=(const RecordingPermit&) = delete;

  explicit operator bool() const { return granted_; }

  /// Whether this thread has it. What is recorded must not look at numbers.
  static bool held();

 private:
  bool granted_ = false;
};

/// While one lives, on whatever thread, nothing is recorded: backward through a recording's own
/// graph runs on the stream on which it was recorded.
class RecordingPause {
 public:
  RecordingPause();
  ~RecordingPause();
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;
};

}  // namespace deq
