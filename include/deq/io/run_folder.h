#pragma once

#include <filesystem>

namespace deq {

/// Makes the folder and its parents, and returns it. A folder that holds anything is refused with
/// an Error: nothing a user made is ever overwritten.
std::filesystem::path create_run_folder(const std::filesystem::path& path);

}  // namespace deq
