#pragma once

#include <cstddef>
#include <string_view>

namespace deq {

/// The character at the beginning of a text.
struct Utf8Character {
  size_t bytes = 0;    ///< 0: what is there is no UTF-8
  bool blank = false;  ///< white space in Unicode's sense, line ends included
};

/// Refuses what Python's decoder refuses: overlong forms, surrogates, numbers above U+10FFFF and
/// whatever ends too early. `text` is not empty.
Utf8Character utf8_character(std::string_view text);

}  // namespace deq
