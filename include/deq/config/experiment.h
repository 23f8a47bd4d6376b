#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace deq {

/// Which experiment a file describes (its key `experiment`), or a ConfigError.
std::string experiment_of(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides = {});

/// The same from text, such as a checkpoint's; `source` names it in messages.
std::string experiment_in(std::string_view toml, const std::string& source,
                          const std::vector<std::string>& overrides = {});

}  // namespace deq
