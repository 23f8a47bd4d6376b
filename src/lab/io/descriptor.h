#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string_view>

#include "lab/io/system_error.h"

namespace deq::lab::io {

/// Writes all the bytes, going on after interruptions and short writes. Returns 0 or errno.
inline int write_all(int descriptor, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(descriptor, bytes, size);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

/// Appends all the bytes or none. Throws Error with the path and the system's reason.
inline void append_whole(int descriptor, const std::filesystem::path& path,
                         std::string_view bytes) {
  const off_t start = ::lseek(descriptor, 0, SEEK_END);
  const int code = write_all(descriptor, bytes.data(), bytes.size());
  if (code == 0) return;
  // On a full disk the beginning may have been written.
  if (start >= 0 && ::ftruncate(descriptor, start) != 0) errno = 0;
  throw_system_error("write", path, code);
}

}  // namespace deq::lab::io
