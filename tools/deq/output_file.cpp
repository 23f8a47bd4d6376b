#include "output_file.h"

#include "core/require.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"

namespace deq::lab::cli {

void require_writable(const std::string& option, const std::filesystem::path& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  require<UsageError>(std::filesystem::is_directory(folder), "{} {}: there is no folder {}", option,
                      path.string(), folder.string());
  try {
    const AtomicFile probe(path);
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

}  // namespace deq::lab::cli
