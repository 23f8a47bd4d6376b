#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace deq::io {

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

}  // namespace deq::io
