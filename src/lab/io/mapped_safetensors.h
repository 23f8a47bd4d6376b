#pragma once

#include <filesystem>

#include "deq/lab/io/safetensors.h"

namespace deq::lab::io {

/// As read_safetensors, but the tensors lie in the mapped file, which lives as long as they do:
/// they must not be written to. Refuses bool, and tensors that do not start at a multiple of their
/// element size.
TensorFile map_safetensors(const std::filesystem::path& path);

}  // namespace deq::lab::io
