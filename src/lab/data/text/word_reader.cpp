#include "lab/data/text/word_reader.h"

#include <algorithm>
#include <cstdint>

namespace deq::lab {
namespace {

/// Python's str.isspace(), at which its str.split() separates words.
bool is_blank(uint32_t code) {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

/// Of a character that begins with this byte; 0: none does.
size_t length_after(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

}  // namespace

Utf8Character utf8_character(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = length_after(first);
  if (length == 0 || length > text.size()) return {};
  uint32_t code = length == 1 ? first : first & (0x7fU >> length);
  for (const char byte : text.substr(1, length - 1)) {
    if ((static_cast<uint8_t>(byte) & 0xc0) != 0x80) return {};
    code = code << 6 | (static_cast<uint8_t>(byte) & 0x3fU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10ffff) return {};
  return {.bytes = length, .blank = is_blank(code)};
}

}  // namespace deq::lab
