#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace deq::lab {

/// A file that appears whole or not at all: the bytes go to a temporary file in the same folder,
/// and commit() puts it in the target's place. Without a commit nothing remains, and an older file
/// at the path is untouched. Every failure is an Error with the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

  /// Returns when the file is on the disk under its own name.
  void commit();

 private:
  void discard() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty once committed or discarded
  int descriptor_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Removes the temporary files that killed processes left in the folder. Nobody may be writing
/// there.
void remove_unfinished_files(const std::filesystem::path& folder);

/// The whole file. Throws Error when it is missing, a folder or unreadable.
std::string read_file(const std::filesystem::path& path);

}  // namespace deq::lab
