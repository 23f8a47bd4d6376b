#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/safetensors.h"
#include "lab/io/safetensors_header.h"

namespace deq::lab {
namespace {

using NamedTensor = std::pair<std::string, torch::Tensor>;

// The widest elements first: every tensor then starts at a multiple of its element size.
std::vector<NamedTensor> in_file_order(const TensorFile& file) {
  for (const auto& [name, tensor] : file.tensors) io::require_storable(name, tensor);
  std::vector<NamedTensor> ordered(file.tensors.begin(), file.tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  return ordered;
}

io::Header header_of(const std::vector<NamedTensor>& ordered, const TensorFile& file) {
  io::Header header{.entries = {}, .metadata = file.metadata};
  header.entries.reserve(ordered.size());
  uint64_t position = 0;
  for (const auto& [name, tensor] : ordered) {
    const uint64_t begin = std::exchange(position, position + tensor.nbytes());
    header.entries.push_back({.name = name,
                              .type = tensor.scalar_type(),
                              .shape = tensor.sizes().vec(),
                              .begin = begin,
                              .end = position});
  }
  return header;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  std::vector<NamedTensor> ordered;
  std::string header;
  try {
    ordered = in_file_order(file);
    header = io::format_header(header_of(ordered, file));
  } catch (const Error& error) {
    throw Error(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
  AtomicFile out(path);
  const uint64_t header_bytes = header.size();
  out.write(&header_bytes, sizeof header_bytes);
  out.write(header);
  for (const auto& [name, tensor] : ordered) {
    const torch::Tensor stored = io::as_stored(tensor);
    out.write(io::bytes_of(stored));
  }
  out.commit();
}

}  // namespace deq::lab
