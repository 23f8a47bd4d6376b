#include "lab/io/atomic_folder.h"

#include <unistd.h>

#include <utility>

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "lab/io/folder_name.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;

AtomicFolder::AtomicFolder(fs::path target) : target_(without_slash(std::move(target))) {
  require<UsageError>(target_.has_filename(), "\"{}\" names no folder", target_.string());
  require<UsageError>(!fs::exists(fs::symlink_status(target_)),
                      "{} exists already, and nothing is overwritten", target_.string());
  const auto parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const auto hidden =
      parent / fmt::format(".{}.tmp.{}.folder", target_.filename().string(), ::getpid());
  std::error_code code;
  for (auto above = parent; !above.empty() && !fs::exists(above, code);
       above = above.parent_path()) {
    made_above_.push_back(above);
  }
  fs::create_directories(hidden, code);
  if (code) {
    clear_away();
    io::throw_system_error("make the folder", target_, code.value());
  }
  temporary_ = hidden;
}

AtomicFolder::~AtomicFolder() {
  clear_away();
}

void AtomicFolder::clear_away() noexcept {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  for (const auto& above : made_above_) fs::remove(above, ignored);  // unless others use it by now
}

void AtomicFolder::commit() {
  // A folder that appeared meanwhile is replaced only while it is empty.
  std::error_code code;
  fs::rename(temporary_, target_, code);
  if (code) io::throw_system_error("make the folder", target_, code.value());
  temporary_.clear();
  made_above_.clear();
}

}  // namespace deq::lab
