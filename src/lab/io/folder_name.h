#pragma once

#include <filesystem>
#include <utility>

namespace deq::lab {

/// A folder without the slash that a shell's completion leaves at its end: it has a name then.
inline std::filesystem::path without_slash(std::filesystem::path folder) {
  return folder.has_filename() ? std::move(folder) : folder.parent_path();
}

}  // namespace deq::lab
