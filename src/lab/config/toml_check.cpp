#include "lab/config/toml_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "deq/lab/base/errors.h"

namespace deq::lab::config {
namespace {

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
  const auto check = [&](bool ok, size_t at, const std::string& what) {
    if (ok) return;
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n');
    throw ConfigError(fmt::format("{}:{}: not valid TOML: {}", source, line, what));
  };
  // A byte order mark may come first.
  for (size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0; at < text.size();) {
    const char byte = text[at];
    if (byte == '"' || byte == '\'') {
      at = end_of_quoted(text, at);
      continue;
    }
    if (byte == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    check(static_cast<uint8_t>(byte) < 0x80, at, no_ascii);
    if (byte == '.') check(++parts <= kMostKeyParts, at, many_parts);
    if (std::string_view("=,[]{}\n").find(byte) != std::string_view::npos) parts = 1;
    ++at;
  }
}

}  // namespace deq::lab::config
