#pragma once

#include <torch/types.h>

#include <filesystem>
#include <map>
#include <string>

// The safetensors format: 8 bytes of header length (little endian), a JSON header with the type,
// shape and byte range of every tensor, then the tensors' bytes. Loading one runs no code.

namespace deq::lab {

struct TensorFile {
  std::map<std::string, torch::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Tensors on the CPU. A file that breaks the format in any way is refused with an Error that says
/// how: it never crashes and never allocates more than the file's size warrants.
TensorFile read_safetensors(const std::filesystem::path& path);

/// Whole or not at all, from any device. Types: float64, float32, float16, bfloat16, int64, int32,
/// int16, int8, uint8 and bool; another one is an Error.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

}  // namespace deq::lab
