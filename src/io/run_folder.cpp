#include "deq/io/run_folder.h"

#include "io/system_error.h"

namespace deq {
namespace fs = std::filesystem;

void require_free_folder(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) return;
  require<UsageError>(fs::is_directory(status), "cannot use ", path.string(),
                      " as a run folder: it exists and is not a folder");
  const bool empty = fs::is_empty(path, code);
  if (code) io::throw_system_error("read", path, code.value());
  require<UsageError>(empty, "cannot use ", path.string(),
                      " as a run folder: it already holds files, which are never overwritten");
}

fs::path create_run_folder(const fs::path& path) {
  require_free_folder(path);
  std::error_code code;
  fs::create_directories(path, code);
  if (code) io::throw_system_error("create", path, code.value());
  return path;
}

}  // namespace deq
