#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "deq/lab/io/safetensors.h"

namespace deq::lab {

/// CRC-32C (Castagnoli). `previous` is the sum of the bytes that come before these.
uint32_t crc32c(std::string_view bytes, uint32_t previous = 0);

/// The metadata key that holds a file's checksum, and is no part of what it sums up.
inline constexpr const char* kChecksumKey = "checksum";

/// Eight hexadecimal digits over all that the file says: every metadata text except the checksum
/// itself, and every tensor's name, type, shape and bytes. The order of the tensors in the file and
/// the spelling of its header do not matter.
std::string content_checksum(const TensorFile& file);

}  // namespace deq::lab
