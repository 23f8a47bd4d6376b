#include "deq/lab/settings/files.h"

#include "lab/config/read_part.h"
#include "lab/config/writer.h"
#include "lab/settings/describe_language.h"
#include "lab/settings/describe_reasoning.h"
#include "lab/settings/describe_segmentation.h"
#include "lab/settings/describe_synthetic.h"
#include "lab/settings/describe_vision.h"

namespace deq::lab {
namespace {

std::string experiment_of_document(const config::Document& document) {
  return std::string(config::Reader(document).required_name(
      config::kExperimentKey, {config::kSynthetic, config::kVision, config::kLanguage,
                               config::kSegmentation, config::kReasoning}));
}

}  // namespace

std::string experiment_of(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides) {
  return experiment_in(config::read_config_file(path.string()), path.string(), overrides);
}

std::string experiment_in(std::string_view toml, const std::string& source,
                          const std::vector<std::string>& overrides) {
  return experiment_of_document(config::parse_document(toml, source, overrides));
}

template <class Config>
Config load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return parse_config<Config>(config::read_config_file(path.string()), path.string(), overrides);
}

template <class Config>
Config parse_config(std::string_view toml, const std::string& source,
                    const std::vector<std::string>& overrides) {
  const auto document = config::parse_document(toml, source, overrides);
  experiment_of_document(document);  // a mistake here would make all other messages useless
  return config::read_part<Config>(document);
}

template <class Config>
std::string to_toml(const Config& config) {
  config::Writer writer;
  Config described = config;
  describe(writer, described);
  return writer.text();
}

#define DEQ_EXPERIMENT(Config)                                               \
  template Config load_config<Config>(const std::filesystem::path&,          \
                                      const std::vector<std::string>&);      \
  template Config parse_config<Config>(std::string_view, const std::string&, \
                                       const std::vector<std::string>&);     \
  template std::string to_toml<Config>(const Config&);

DEQ_EXPERIMENT(SyntheticConfig)
DEQ_EXPERIMENT(VisionConfig)
DEQ_EXPERIMENT(LanguageConfig)
DEQ_EXPERIMENT(SegmentationConfig)
DEQ_EXPERIMENT(ReasoningConfig)
#undef DEQ_EXPERIMENT

}  // namespace deq::lab
