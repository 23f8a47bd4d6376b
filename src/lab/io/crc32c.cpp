#include "lab/io/crc32c.h"

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstring>

#include "lab/io/checksum.h"

namespace deq::lab {
namespace io {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bits reversed

// tables[k][byte]: what a byte adds to the sum when k more bytes follow it.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = sum;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t sum = tables[k - 1][byte];
      tables[k][byte] = (sum >> 8) ^ tables[0][sum & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint64_t eight_bytes(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

}  // namespace

uint32_t crc32c_by_table(std::string_view bytes, uint32_t previous) {
  uint32_t sum = ~previous;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    const uint64_t word = eight_bytes(bytes.data()) ^ sum;
    sum = 0;
    for (size_t k = 0; k < 8; ++k) sum ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (const char byte : bytes) {
    sum = (sum >> 8) ^ kTables[0][(sum ^ static_cast<uint8_t>(byte)) & 0xff];
  }
  return ~sum;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) uint32_t crc32c_by_instruction(std::string_view bytes,
                                                                 uint32_t previous) {
  uint64_t sum = ~previous;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    sum = _mm_crc32_u64(sum, eight_bytes(bytes.data()));
  }
  auto narrow = static_cast<uint32_t>(sum);
  for (const char byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(byte));
  return ~narrow;
}

bool has_crc32c_instruction() {
  return __builtin_cpu_supports("sse4.2") != 0;
}
#else
uint32_t crc32c_by_instruction(std::string_view bytes, uint32_t previous) {
  return crc32c_by_table(bytes, previous);
}

bool has_crc32c_instruction() {
  return false;
}
#endif

}  // namespace io

uint32_t crc32c(std::string_view bytes, uint32_t previous) {
  static const auto fastest =
      io::has_crc32c_instruction() ? io::crc32c_by_instruction : io::crc32c_by_table;
  return fastest(bytes, previous);
}

}  // namespace deq::lab
