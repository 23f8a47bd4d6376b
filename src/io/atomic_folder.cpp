#include "deq/io/atomic_folder.h"

#include <unistd.h>

#include <utility>

#include "deq/core/error.h"
#include "io/system_error.h"

namespace deq {
namespace fs = std::filesystem;
namespace {

/// Without the slash at the end that says once more that it is a folder.
fs::path named(fs::path path) {
  return path.has_filename() ? std::move(path) : path.parent_path();
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path target) : target_(named(std::move(target))) {
  require<UsageError>(target_.has_filename(), "\"", target_.string(), "\" names no folder");
  require<UsageError>(!fs::exists(fs::symlink_status(target_)), target_.string(),
                      " exists already, and nothing is overwritten");
  const auto parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const auto hidden =
      parent / c10::str(".", target_.filename().string(), ".tmp.", ::getpid(), ".folder");
  std::error_code code;
  fs::create_directories(hidden, code);
  if (code) io::throw_system_error("make the folder", target_, code.value());
  temporary_ = hidden;
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  // A folder that appeared meanwhile is replaced only while it is empty.
  std::error_code code;
  fs::rename(temporary_, target_, code);
  if (code) io::throw_system_error("make the folder", target_, code.value());
  temporary_.clear();
}

}  // namespace deq
