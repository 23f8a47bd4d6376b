#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lab/reproduce/scale.h"

namespace deq::lab::reproduce {

/// A run at one scale. Every figure and table that names it uses the same folder.
struct RunSource {
  std::string name{};
  std::string config{};                  ///< the file, as `deq train` takes it
  std::vector<std::string> overrides{};  ///< "key=value", laid over it
  Data data = Data::None;
  double minutes = 0;     ///< of training
  double memory_gib = 0;  ///< at its peak
};

/// All runs of a scale: runs-<scale>.toml.
struct Catalogue {
  Scale scale = Scale::Small;
  std::string machine{};  ///< what minutes and memory were measured on or estimated for
  std::string costs{};    ///< which of both, in a sentence
  std::vector<RunSource> runs{};

  /// Nothing where the scale has no run of this name.
  const RunSource* find(const std::string& run) const;
};

/// Throws ConfigError for a file that cannot be read or used.
Catalogue read_catalogue(const std::filesystem::path& folder, Scale scale);

}  // namespace deq::lab::reproduce
