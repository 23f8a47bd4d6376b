#pragma once

#include <filesystem>

namespace deq::lab {

/// Unpacks a .tar, .tar.gz, .tar.xz, … into `folder`, which must exist, with the system's program
/// tar. An Error says why that failed, or that tar itself is missing. Only files and folders are
/// unpacked: an archive with a link, or with a name that leads out of the folder, is refused.
void unpack_archive(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace deq::lab
