#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "deq/core/error.h"

// Words are separated by white space and lines by "\n", "\r\n" or "\r", as Python does it for
// `for line in open(path, encoding="utf-8"): line.split()`.

namespace deq::lab {

/// The character at the beginning of a text.
struct Utf8Character {
  size_t bytes = 0;    ///< 0: what is there is no UTF-8
  bool blank = false;  ///< white space in Unicode's sense, line ends included
};

/// Refuses what Python's decoder refuses: overlong forms, surrogates, numbers above U+10FFFF and
/// whatever ends too early. `text` is not empty.
Utf8Character utf8_character(std::string_view text);

/// The text is no UTF-8.
class Utf8Error : public Error {
 public:
  explicit Utf8Error(const char* position)
      : Error("the text is not UTF-8: a character cannot be read"), position_(position) {}

  /// The first byte of what is no character.
  const char* position() const { return position_; }

 private:
  const char* position_;
};

namespace word_reader {

enum class Kind : uint8_t { Letter, Blank, LineEnd, NotAscii };

constexpr std::array<Kind, 256> make_kinds() {
  std::array<Kind, 256> kinds{};
  for (const int blank : {0x09, 0x0b, 0x0c, 0x1c, 0x1d, 0x1e, 0x1f, 0x20}) {
    kinds[static_cast<size_t>(blank)] = Kind::Blank;
  }
  kinds['\n'] = kinds['\r'] = Kind::LineEnd;
  for (size_t byte = 0x80; byte < 0x100; ++byte) kinds[byte] = Kind::NotAscii;
  return kinds;
}

inline constexpr std::array<Kind, 256> kKinds = make_kinds();

inline Kind kind(char byte) {
  return kKinds[static_cast<uint8_t>(byte)];
}

/// Where the word that begins here ends: here, when none does.
inline const char* word_end(const char* at, const char* end) {
  for (; at < end; ++at) {
    if (kind(*at) == Kind::Letter) continue;
    if (kind(*at) != Kind::NotAscii) return at;
    const auto character = utf8_character({at, static_cast<size_t>(end - at)});
    if (character.bytes == 0) throw Utf8Error(at);
    if (character.blank) return at;
    at += character.bytes - 1;
  }
  return at;
}

}  // namespace word_reader

/// Calls on_word(std::string_view) for every word and on_line_end() for every line's end, in order.
/// Returns whether something stands behind the last line's end. Throws Utf8Error.
template <class OnWord, class OnLineEnd>
bool read_words(std::string_view text, const OnWord& on_word, const OnLineEnd& on_line_end) {
  using word_reader::kind;
  using word_reader::Kind;
  const char *at = text.data(), *end = at + text.size();
  bool open_line = false;
  while (at < end) {
    open_line = true;
    if (kind(*at) == Kind::Blank) {
      ++at;
    } else if (kind(*at) == Kind::LineEnd) {
      at += *at == '\r' && at + 1 < end && at[1] == '\n' ? 2 : 1;
      on_line_end();
      open_line = false;
    } else if (const char* last = word_reader::word_end(at, end); last > at) {
      on_word(std::string_view(at, static_cast<size_t>(last - at)));
      at = last;
    } else {
      at += utf8_character({at, static_cast<size_t>(end - at)}).bytes;  // a blank beyond ASCII
    }
  }
  return open_line;
}

}  // namespace deq::lab
