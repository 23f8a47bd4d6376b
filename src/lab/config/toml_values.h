#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lab/config/document.h"

// The only file behind this header knows the TOML parser.

namespace deq::lab::config {

/// Throws ConfigError for a syntax error.
Table parse_toml(std::string_view text, const std::string& source);

/// One value, such as 3, "text" or {a = 1}, or nothing when it is not TOML.
std::optional<Entry> parse_toml_value(const std::string& text, const Origin& origin);

}  // namespace deq::lab::config
