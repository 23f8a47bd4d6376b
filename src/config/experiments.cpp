#include "config/experiments.h"

#include "config/reader.h"
#include "deq/config/experiment.h"

namespace deq {

std::string config::experiment_of(const Document& document) {
  return std::string(Reader(document).required_name(
      kExperimentKey, {kSynthetic, kVision, kLanguage, kSegmentation}));
}

std::string experiment_of(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides) {
  return experiment_in(config::read_config_file(path.string()), path.string(), overrides);
}

std::string experiment_in(std::string_view toml, const std::string& source,
                          const std::vector<std::string>& overrides) {
  return config::experiment_of(config::parse_document(toml, source, overrides));
}

}  // namespace deq
