#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "deq/io/atomic_file.h"
#include "io/system_error.h"

namespace deq {

std::string read_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) io::throw_system_error("read", path, errno);
  std::string bytes;
  std::array<char, 1 << 16> chunk;
  ssize_t count = 0;
  int code = 0;
  do {
    count = ::read(descriptor, chunk.data(), chunk.size());
    if (count > 0) bytes.append(chunk.data(), static_cast<size_t>(count));
    code = count < 0 ? errno : 0;
  } while (count > 0 || code == EINTR);
  ::close(descriptor);
  if (code != 0) io::throw_system_error("read", path, code);
  return bytes;
}

}  // namespace deq
