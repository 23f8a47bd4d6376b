#pragma once

#include <filesystem>
#include <string_view>

namespace deq::lab {

/// The file in a run folder that whoever trains it holds locked.
inline constexpr std::string_view kLockFile = "lock";

/// A run folder that this process alone may train. The kernel lets go of the lock when the process
/// ends, however it ends; the file that a killed one leaves behind holds nobody up.
class RunLock {
 public:
  /// Throws UsageError that names the process which holds it. Leaves the folder as it is then.
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace deq::lab
