#pragma once

#include <filesystem>

#include "deq/lab/io/safetensors.h"

// A checkpoint is a safetensors file, readable by every reader of that format, that says so in its
// metadata (`format`, `format_version`) and carries a `checksum` over all its content.

namespace deq::lab {

/// Whole or not at all. The three metadata keys above are the file's own: they are set here.
void write_checkpoint_file(const std::filesystem::path& path, TensorFile file);

/// What was written, without those three keys. A file that is damaged, of another kind or of a
/// newer format is refused with an Error that says which.
TensorFile read_checkpoint_file(const std::filesystem::path& path);

}  // namespace deq::lab
