#pragma once

#include <filesystem>
#include <vector>

namespace deq::lab {

/// A folder that appears whole or not at all: what goes into path(), a hidden folder beside the
/// target, takes the target's name with commit(). Without a commit nothing remains.
class AtomicFolder {
 public:
  /// Throws UsageError where something has the target's name already, Error where no folder can be
  /// made beside it.
  explicit AtomicFolder(std::filesystem::path target);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }

  void commit();

 private:
  void clear_away() noexcept;

  std::filesystem::path target_;
  std::filesystem::path temporary_;                // empty once committed
  std::vector<std::filesystem::path> made_above_;  // to hold it, the innermost first
};

}  // namespace deq::lab
