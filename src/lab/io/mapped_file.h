#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace deq::lab::io {

/// The bytes of a regular file, to be read where the system holds them. Processes that map one file
/// share its memory.
class MappedFile {
 public:
  /// Error when it is missing, unreadable or no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {begin_, size_}; }
  /// When it was last written, in nanoseconds.
  int64_t modified() const { return modified_; }

  /// Lets go of the memory of `part` of the bytes, which are read again when they are looked at.
  void release(std::string_view part) const;

 private:
  const char* begin_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ = 0;
};

}  // namespace deq::lab::io
