#pragma once

#include <filesystem>

namespace deq::lab {

/// Throws UsageError where the path is something else than a new or empty folder: nothing a user
/// made is ever overwritten.
void require_free_folder(const std::filesystem::path& path);

/// Makes the folder, which must be free, and its parents, and returns it.
std::filesystem::path create_run_folder(const std::filesystem::path& path);

}  // namespace deq::lab
