#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace deq::lab::config {

/// Of a key, such as the three of solver.forward.name. The parser of TOML follows a key's parts by
/// recursion, however many there are.
inline constexpr size_t kMostKeyParts = 32;

/// Throws ConfigError for what the parser of TOML must not see: keys of more parts, and letters
/// beyond ASCII outside of texts and comments, where TOML has none.
void check_toml(std::string_view text, const std::string& source);

}  // namespace deq::lab::config
