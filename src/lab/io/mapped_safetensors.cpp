#include "lab/io/mapped_safetensors.h"

#include <ATen/ops/from_blob.h>

#include <cstring>
#include <memory>

#include "core/require.h"
#include "lab/io/mapped_file.h"
#include "lab/io/safetensors_header.h"

namespace deq::lab::io {
namespace {

torch::Tensor map_tensor(const std::shared_ptr<const MappedFile>& file, const char* data,
                         const TensorEntry& entry) {
  const char* bytes = data + entry.begin;
  require(entry.type != torch::kBool, "tensor \"{}\" is BOOL", entry.name);
  require(reinterpret_cast<uintptr_t>(bytes) % torch::elementSize(entry.type) == 0,
          "tensor \"{}\" does not start at a multiple of its element size", entry.name);
  return at::from_blob(
      const_cast<char*>(bytes), entry.shape, [file](void*) {},
      torch::TensorOptions().dtype(entry.type));
}

TensorFile map_content(const std::shared_ptr<const MappedFile>& file) {
  const auto bytes = file->bytes();
  require(bytes.size() >= kLengthBytes, "it has {} bytes, too few for a header", bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  const auto rest = bytes.substr(kLengthBytes);
  require(header_bytes <= rest.size() && header_bytes <= kMaxHeaderBytes,
          "its header should have {} bytes, but only {} follow", header_bytes, rest.size());
  auto header = parse_header(rest.substr(0, header_bytes), rest.size() - header_bytes);
  TensorFile result{.tensors = {}, .metadata = std::move(header.metadata)};
  for (const auto& entry : header.entries) {
    result.tensors[entry.name] = map_tensor(file, rest.data() + header_bytes, entry);
  }
  return result;
}

}  // namespace

TensorFile map_safetensors(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  try {
    return map_content(file);
  } catch (const Error& error) {
    throw Error(
        fmt::format("{} is not a usable safetensors file: {}", path.string(), error.what()));
  }
}

}  // namespace deq::lab::io
