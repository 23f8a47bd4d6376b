#pragma once

#include <cstdint>
#include <string_view>

// The two ways to the same CRC-32C; deq::crc32c takes the faster one that works here.

namespace deq::io {

uint32_t crc32c_by_table(std::string_view bytes, uint32_t previous);

/// Needs a processor with SSE4.2.
uint32_t crc32c_by_instruction(std::string_view bytes, uint32_t previous);

bool has_crc32c_instruction();

}  // namespace deq::io
