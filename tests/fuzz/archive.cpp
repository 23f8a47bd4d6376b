// Archives of images, as tar unpacks them. Nothing gets out of the folder, whatever they say.

#include "deq/lab/data/images/archive.h"

#include <sys/resource.h>

#include "fuzz/fuzz.h"

namespace deq::fuzz {
namespace fs = std::filesystem;

const size_t kSpareBytes = size_t{1} << 20;

namespace {

/// Of a file that tar writes: an archive of few bytes may unpack to any size.
void limit_file_size() {
  const rlimit limit{size_t{16} << 20, size_t{16} << 20};
  promise(::setrlimit(RLIMIT_FSIZE, &limit) == 0, "there is a limit to the size of files");
}

}  // namespace

void read(std::string_view input) {
  [[maybe_unused]] static const bool limited = (limit_file_size(), true);
  const auto archive = put("archive.tar", input);
  const auto into = folder() / "unpacked";
  fs::remove_all(into);
  fs::create_directories(into);
  lab::unpack_archive(archive, into);
  for (const auto& entry : fs::recursive_directory_iterator(into)) {
    promise(!entry.is_symlink(), "a link was unpacked");
  }
  for (const auto& entry : fs::directory_iterator(folder())) {
    promise(entry.path() == archive || entry.path() == into, "a file got out of its folder");
  }
}

}  // namespace deq::fuzz
