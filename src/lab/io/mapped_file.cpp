#include "lab/io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/require.h"
#include "lab/io/system_error.h"

namespace deq::lab::io {

MappedFile::MappedFile(const std::filesystem::path& path) {
  struct stat status {};
  // Looked at before it is opened: opening a pipe would wait for a writer.
  if (::stat(path.c_str(), &status) != 0) throw_system_error("read", path, errno);
  require(S_ISREG(status.st_mode), "cannot read {}: it is not a regular file", path.string());
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw_system_error("read", path, errno);
  int code = ::fstat(descriptor, &status) == 0 ? 0 : errno;
  void* mapped = nullptr;
  if (code == 0 && status.st_size > 0) {
    const auto size = static_cast<size_t>(status.st_size);
    mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) code = errno;
  }
  ::close(descriptor);
  if (code != 0) throw_system_error("read", path, code);
  begin_ = static_cast<const char*>(mapped);
  size_ = static_cast<size_t>(status.st_size);
  modified_ = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<char*>(begin_), size_);
}

void MappedFile::release(std::string_view part) const {
  // Whole pages only; those at the ends may belong to a neighbour in part.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(part.data());
  const auto begin = (first + page - 1) / page * page, end = (first + part.size()) / page * page;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace deq::lab::io
