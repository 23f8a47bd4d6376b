#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace deq::lab::cli {

/// A file or folder of the project's configs/: here, or beside one of the folders above the
/// program, built or installed. Nothing where there is none.
std::optional<std::filesystem::path> find_in_configs(std::string_view name);

}  // namespace deq::lab::cli
