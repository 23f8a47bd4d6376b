#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Experiments as TOML files. A Config is a SyntheticConfig, VisionConfig, LanguageConfig,
// SegmentationConfig or ReasoningConfig. `overrides` are "key=value", applied in turn.

namespace deq::lab {

/// Which experiment a file describes (its key `experiment`), or a ConfigError.
std::string experiment_of(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides = {});

/// The same from text, such as a checkpoint's; `source` names it in messages.
std::string experiment_in(std::string_view toml, const std::string& source,
                          const std::vector<std::string>& overrides = {});

/// The file over the defaults, or a ConfigError.
template <class Config>
Config load_config(const std::filesystem::path& path,
                   const std::vector<std::string>& overrides = {});

/// The same from text; `source` names it in messages.
template <class Config>
Config parse_config(std::string_view toml, const std::string& source,
                    const std::vector<std::string>& overrides = {});

/// The effective configuration: every key with its value. Reads back to the same values exactly.
template <class Config>
std::string to_toml(const Config& config);

}  // namespace deq::lab
