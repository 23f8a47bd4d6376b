#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "deq/config/recipe.h"

namespace deq {

/// [data]: y = h(x) + noise, x uniform on [x_min, x_max].
struct SyntheticData {
  int64_t train_samples = 4096;
  int64_t valid_samples = 1000;
  double noise = 0.05;  ///< standard deviation
  double x_min = -2.0;
  double x_max = 2.0;
};

/// [model].
struct SyntheticModel {
  int64_t hidden = 50;
};

/// The scalar regression task. The defaults are the paper's, with one of its four gammas.
struct SyntheticConfig : Recipe {
  SyntheticConfig();

  SyntheticData data{};
  SyntheticModel model{};
};

/// The file with each override "key=value" applied in turn, or a ConfigError.
SyntheticConfig load_synthetic(const std::filesystem::path& path,
                               const std::vector<std::string>& overrides = {});

/// The same from text, such as a checkpoint's; `source` names it in messages.
SyntheticConfig parse_synthetic(std::string_view toml, const std::string& source,
                                const std::vector<std::string>& overrides = {});

/// The effective configuration: every key with its value. Reads back to the same values exactly.
std::string to_toml(const SyntheticConfig& config);

}  // namespace deq
