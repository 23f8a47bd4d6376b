#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace deq::lab {

/// Where an image of a packed set is.
struct PackedImage {
  std::string name;
  int64_t label = 0;
  int64_t shard = 0;
  int64_t offset = 0;
  int64_t length = 0;
  uint32_t checksum = 0;  ///< CRC-32C of its bytes
};

struct PackedIndex {
  std::vector<std::string> classes;
  std::vector<int64_t> shard_sizes;  ///< in bytes
  std::vector<PackedImage> images;
};

std::filesystem::path packed_index_path(const std::filesystem::path& folder);
std::filesystem::path packed_shard_path(const std::filesystem::path& folder, int64_t shard);

void write_packed_index(const std::filesystem::path& folder, const PackedIndex& index);

/// All its numbers are checked: every image lies within its shard and has a class.
PackedIndex read_packed_index(const std::filesystem::path& folder);

}  // namespace deq::lab
