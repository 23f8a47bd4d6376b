#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace deq::lab {

/// A new file of scalars that TensorBoard reads, beside those that earlier sessions left in the
/// folder. An event reaches the file with one write, whole or not at all; a failure is an Error
/// with the path and the system's reason.
class EventFile {
 public:
  /// Makes the folder where it is missing.
  explicit EventFile(const std::filesystem::path& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// TensorBoard forgets what earlier sessions logged for steps after this one.
  void start_session(int64_t step);

  /// Kept as float32. NaN, and what is infinite as a float32, is left out.
  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace deq::lab
