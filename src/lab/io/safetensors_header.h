#pragma once

#include <torch/types.h>

#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deq::lab::io {

static_assert(std::endian::native == std::endian::little, "tensor bytes are written as they lie");

/// The limit of the reference implementation.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr uint64_t kLengthBytes = 8;

/// Where one tensor lies in the bytes after the header.
struct TensorEntry {
  std::string name;
  torch::ScalarType type = torch::kFloat32;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

struct Header {
  std::vector<TensorEntry> entries;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// "F32" for float32; nothing for a type the format does not hold here.
std::optional<std::string_view> type_name(torch::ScalarType type);

/// Throws Error with what is wrong, and no path, unless the entries exactly tile `data_bytes`
/// bytes.
Header parse_header(std::string_view json, uint64_t data_bytes);

/// The JSON text, padded with spaces so that the data behind length and header is 8-byte aligned.
std::string format_header(const Header& header);

/// Throws Error, without a path, for a tensor that no file holds.
void require_storable(const std::string& name, const torch::Tensor& tensor);

/// The same values on the CPU, lying one after the other as a file holds them.
torch::Tensor as_stored(const torch::Tensor& tensor);

/// The bytes of a tensor that is as_stored.
std::string_view bytes_of(const torch::Tensor& stored);

}  // namespace deq::lab::io
