#include "lab/config/toml_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "deq/lab/base/errors.h"

namespace deq::lab::config {
namespace {

bool is_ascii(char byte) {
  return static_cast<uint8_t>(byte) < 0x80;
}

/// Follows TOML outside of quotes and comments, sign by sign, as far as it takes to know what a
/// word is.
class Words {
 public:
  /// Whether the signs before belong to a word that goes on: no quote may stand there.
  bool in_word() const { return in_word_; }
  bool in_value() const { return in_value_; }

  void see(char sign) {
    switch (sign) {
      case '\n':
        in_word_ = false;
        if (open_.empty()) in_value_ = false;
        return;
      case ' ':
      case '\t':
      case '\r':
        in_word_ = false;
        return;
      case '=':
        in_value_ = true;
        in_word_ = false;
        return;
      case ',':
        in_word_ = false;
        in_value_ = !open_.empty() && open_.back() == '[';
        return;
      case ']':
      case '}':
        in_word_ = false;
        if (!open_.empty()) open_.pop_back();
        return;
      case '[':
      case '{':
        // In the middle of a value's word it is one of its letters; else a list or table begins, or
        // a table's head.
        if (in_word_) return;
        if (in_value_) open_ += sign;
        in_value_ = in_value_ && sign == '[';
        return;
      case '.':
        in_word_ = in_value_;  // it parts the names of a key
        return;
      default:
        in_word_ = true;
    }
  }

 private:
  std::string open_;  // the brackets of values that are not closed yet
  bool in_word_ = false, in_value_ = false;
};

/// Where the text in quotes that begins here ends: behind its quotes, or at the end of everything.
size_t end_of_quoted(std::string_view toml, size_t begin) {
  const char quote = toml[begin];
  const std::string three(3, quote);
  const bool several_lines = toml.substr(begin).starts_with(three);
  for (size_t at = begin + (several_lines ? 3 : 1); at < toml.size(); ++at) {
    if (toml[at] == '\\' && quote == '"') {
      ++at;
    } else if (several_lines && toml.substr(at).starts_with(three)) {
      // Of more than three quotes the last three are the end.
      return std::min(toml.find_first_not_of(quote, at), toml.size());
    } else if (!several_lines && (toml[at] == quote || toml[at] == '\n')) {
      return at + 1;
    }
  }
  return toml.size();
}

}  // namespace

void check_toml(std::string_view text, const std::string& source) {
  const auto many_parts = fmt::format("a key of more than {} parts", kMostKeyParts);
  const std::string no_ascii = "a letter beyond ASCII outside of quotes and comments";
  size_t parts = 1;
  Words words;
  const auto check = [&](bool ok, size_t at, const std::string& what) {
    if (ok) return;
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n');
    throw ConfigError(fmt::format("{}:{}: not valid TOML: {}", source, line, what));
  };
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark may come first
  for (size_t at = 0; at < text.size();) {
    const char byte = text[at];
    if (byte == '"' || byte == '\'') {
      check(!words.in_word(), at, "a quote in the middle of a word");
      const auto end = end_of_quoted(text, at);
      // Behind a backslash toml++ 3.3 asks whether letters are white space. Of some it must not be
      // asked: what it then does is undefined.
      for (auto slash = text.find('\\', at); byte == '"' && slash < end;
           slash = text.find('\\', slash + 2)) {
        const auto next = text.find_first_not_of(" \t\r\n", slash + 1);
        check(next >= end || is_ascii(text[next]), next,
              "a letter beyond ASCII after a backslash, which is not supported");
      }
      at = end;
      words.see(text[end - 1] == '\n' ? '\n'
                                      : ' ');  // a text that is not closed ends with its line
      continue;
    }
    if (byte == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    check(is_ascii(byte), at, no_ascii);
    check(byte != '=' || !words.in_value(), at,
          "a = inside of a value; is a bracket before it not closed?");
    words.see(byte);
    if (byte == '.') check(++parts <= kMostKeyParts, at, many_parts);
    if (std::string_view("=,[]{}\n").find(byte) != std::string_view::npos) parts = 1;
    ++at;
  }
}

}  // namespace deq::lab::config
