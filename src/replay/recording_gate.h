#pragma once

namespace deq {

/// While one thread records, torch takes all random numbers that the process draws on that GPU for
/// the recording's. So recordings are made while no pass of another thread is under way.

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

/// The right to record, for a thread that is in no pass.
class RecordingPermit {
 public:
  enum class Wait {
    Briefly,    ///< a pass that cannot be recorded now is evaluated
    Patiently,  ///< there is no other way to go on
  };
  explicit RecordingPermit(Wait wait);
  ~RecordingPermit();
  RecordingPermit(const RecordingPermit&) = delete;
  RecordingPermit& operator=(const RecordingPermit&) = delete;

  explicit operator bool() const { return granted_; }

 private:
  bool granted_;
};

}  // namespace deq
