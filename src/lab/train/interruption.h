#pragma once

namespace deq::lab {

/// While one exists, SIGINT and SIGTERM ask for an end instead of making it: a trainer finishes its
/// step and saves. A second signal ends the process at once, with status 128 + signal. Only one may
/// exist at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// The signal that asked, or 0.
  static int requested();
};

}  // namespace deq::lab
