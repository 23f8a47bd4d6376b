#include "deq/lab/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "core/require.h"
#include "lab/io/descriptor.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Hidden, so that a glob over a run folder does not meet what a killed process left.
fs::path temporary_name(const fs::path& path) {
  static std::atomic<uint64_t> counter{0};
  return folder_of(path) /
         fmt::format(".{}.tmp.{}.{}", path.filename().string(), ::getpid(), counter++);
}

// Makes the rename itself survive a power cut. File systems that cannot sync a folder say EINVAL.
void sync_folder(const fs::path& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) io::throw_system_error("write", path, errno);
  const int code = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  if (code != 0 && code != EINVAL) io::throw_system_error("write", path, code);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  require(path_.has_filename(), "cannot write {}: it names no file", path_.string());
  struct stat old {};
  // A rename would replace a device such as /dev/null for good.
  require(::stat(path_.c_str(), &old) != 0 || S_ISREG(old.st_mode),
          "cannot write {}: it exists and is not a regular file", path_.string());
  do {
    temporary_ = temporary_name(path_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) io::throw_system_error("write", path_, errno);
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

void AtomicFile::write(const void* bytes, size_t size) {
  require(descriptor_ >= 0, "cannot write {}: it is already committed", path_.string());
  const int code = io::write_all(descriptor_, static_cast<const char*>(bytes), size);
  if (code != 0) {
    discard();
    io::throw_system_error("write", path_, code);
  }
}

void AtomicFile::commit() {
  require(descriptor_ >= 0, "cannot write {}: it is already committed", path_.string());
  int code = ::fsync(descriptor_) == 0 ? 0 : errno;
  // Network file systems may report a failed write only here.
  if (::close(std::exchange(descriptor_, -1)) != 0 && code == 0) code = errno;
  if (code == 0 && ::rename(temporary_.c_str(), path_.c_str()) != 0) code = errno;
  if (code != 0) {
    discard();
    io::throw_system_error("write", path_, code);
  }
  temporary_.clear();
  sync_folder(path_);
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void remove_unfinished_files(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with('.') && name.find(".tmp.") != std::string::npos) {
      unfinished.push_back(entry.path());
    }
  }
  for (const auto& path : unfinished) fs::remove(path, code);
}

std::string read_file(const fs::path& path) {
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

}  // namespace deq::lab
