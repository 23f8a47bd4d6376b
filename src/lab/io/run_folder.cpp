#include "deq/lab/io/run_folder.h"

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/io/run_lock.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;

void require_free_folder(const fs::path& path) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) return;
  require<UsageError>(fs::is_directory(status),
                      "cannot use {} as a run folder: it exists and is not a folder",
                      path.string());
  bool empty = true;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    // One that was killed before it could write anything leaves its lock, which holds nobody up.
    if (entry.path().filename() != kLockFile) empty = false;
  }
  if (code) io::throw_system_error("read", path, code.value());
  require<UsageError>(
      empty, "cannot use {} as a run folder: it already holds files, which are never overwritten",
      path.string());
}

fs::path create_run_folder(const fs::path& path) {
  require_free_folder(path);
  std::error_code code;
  fs::create_directories(path, code);
  if (code) io::throw_system_error("create", path, code.value());
  return path;
}

}  // namespace deq::lab
