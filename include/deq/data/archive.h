#pragma once

#include <filesystem>

namespace deq {

/// Unpacks a .tar, .tar.gz, .tar.xz, … into `folder`, which is there, with the system's program
/// tar. An Error says why it cannot be, and whether tar itself is missing. Only files and folders
/// come out of it: an archive with a link, or with a name that leads out of the folder, is refused.
void unpack_archive(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace deq
