#pragma once

#include <filesystem>
#include <string>

namespace deq::lab::cli {

/// Throws UsageError in the name of this option unless a regular file can be written at `path`.
/// Nothing is left there: what follows may take hours.
void require_writable(const std::string& option, const std::filesystem::path& path);

}  // namespace deq::lab::cli
