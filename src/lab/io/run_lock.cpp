#include "lab/io/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>

#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "lab/io/descriptor.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace {

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}\n", ::getpid(), host.data());
}

/// Some file systems of clusters have no locks. One process alone can train there as well.
bool has_no_locks(int code) {
  return code == ENOSYS || code == EOPNOTSUPP || code == ENOLCK;
}

/// Whether the file is still the one of that name: whoever let go of it has removed it.
bool is_in_place(int descriptor, const std::filesystem::path& path) {
  struct stat held = {}, named = {};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

[[noreturn]] void refuse_second(const std::filesystem::path& path) {
  std::string holder = read_file(path);
  if (!holder.empty() && holder.back() == '\n') holder.pop_back();
  throw UsageError(fmt::format("{} is being trained by {}: one process at a time may do so",
                               path.parent_path().string(),
                               holder.empty() ? "another process" : holder));
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& run) : path_(run / kLockFile) {
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor_ < 0) io::throw_system_error("write", path_, errno);
    const int code = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (code == EWOULDBLOCK || (code != 0 && !has_no_locks(code))) {
      ::close(descriptor_);
      if (code == EWOULDBLOCK) refuse_second(path_);
      io::throw_system_error("lock", path_, code);
    }
    if (is_in_place(descriptor_, path_)) break;
    ::close(descriptor_);
  }
  const auto text = this_process();
  int code = ::ftruncate(descriptor_, 0) == 0 ? 0 : errno;
  if (code == 0) code = io::write_all(descriptor_, text.data(), text.size());
  if (code != 0) {
    ::close(descriptor_);
    io::throw_system_error("write", path_, code);
  }
}

RunLock::~RunLock() {
  ::unlink(path_.c_str());  // before the lock goes: another process may have it right after
  ::close(descriptor_);
}

}  // namespace deq::lab
