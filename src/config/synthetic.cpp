#include "deq/config/synthetic.h"

#include "config/describe_synthetic.h"
#include "config/load.h"

namespace deq {

SyntheticConfig load_synthetic(const std::filesystem::path& path,
                               const std::vector<std::string>& overrides) {
  return parse_synthetic(config::read_config_file(path.string()), path.string(), overrides);
}

SyntheticConfig parse_synthetic(std::string_view toml, const std::string& source,
                                const std::vector<std::string>& overrides) {
  return config::load<SyntheticConfig>(config::parse_document(toml, source, overrides));
}

std::string to_toml(const SyntheticConfig& config) {
  return config::write(config);
}

}  // namespace deq
