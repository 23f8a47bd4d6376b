#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/require.h"
#include "deq/lab/io/safetensors.h"
#include "lab/io/safetensors_header.h"
#include "lab/io/system_error.h"

namespace deq::lab {
namespace fs = std::filesystem;
namespace {

void read_exactly(std::ifstream& in, void* bytes, uint64_t size) {
  in.read(static_cast<char*>(bytes), static_cast<std::streamsize>(size));
  require(static_cast<uint64_t>(in.gcount()) == size, "it could not be read to its end");
}

io::Header read_header(std::ifstream& in, uint64_t file_bytes) {
  require(file_bytes >= io::kLengthBytes, "it has {} bytes, too few for a header", file_bytes);
  uint64_t header_bytes = 0;
  read_exactly(in, &header_bytes, sizeof header_bytes);
  const uint64_t after_length = file_bytes - io::kLengthBytes;
  require(header_bytes <= after_length, "its header should have {} bytes, but only {} follow",
          header_bytes, after_length);
  require(header_bytes <= io::kMaxHeaderBytes, "its header has {} bytes, more than {}",
          header_bytes, io::kMaxHeaderBytes);
  std::string header(header_bytes, '\0');
  read_exactly(in, header.data(), header_bytes);
  return io::parse_header(header, after_length - header_bytes);
}

torch::Tensor read_tensor(std::ifstream& in, const io::TensorEntry& entry) {
  torch::Tensor tensor = torch::empty(entry.shape, torch::TensorOptions().dtype(entry.type));
  const uint64_t size = entry.end - entry.begin;
  read_exactly(in, tensor.data_ptr(), size);
  if (entry.type == torch::kBool) {
    // Other values would be undefined behaviour as soon as someone looks at them.
    const auto* bytes = static_cast<const uint8_t*>(tensor.data_ptr());
    require(std::all_of(bytes, bytes + size, [](uint8_t byte) { return byte <= 1; }),
            "tensor \"{}\" is BOOL and holds bytes other than 0 and 1", entry.name);
  }
  return tensor;
}

}  // namespace

TensorFile read_safetensors(const fs::path& path) {
  std::error_code code;
  const uint64_t file_bytes = fs::file_size(path, code);
  if (code) io::throw_system_error("read", path, code.value());
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) io::throw_system_error("read", path, errno);
  try {
    io::Header header = read_header(in, file_bytes);
    TensorFile file{.tensors = {}, .metadata = std::move(header.metadata)};
    for (const auto& entry : header.entries) file.tensors[entry.name] = read_tensor(in, entry);
    return file;
  } catch (const Error& error) {
    throw Error(
        fmt::format("{} is not a usable safetensors file: {}", path.string(), error.what()));
  }
}

}  // namespace deq::lab
