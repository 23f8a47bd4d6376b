// Configuration files of every experiment. What can be read can be written and read back.

#include "deq/lab/settings/files.h"

#include "deq/lab/settings/language.h"
#include "deq/lab/settings/segmentation.h"
#include "deq/lab/settings/synthetic.h"
#include "deq/lab/settings/vision.h"
#include "fuzz/fuzz.h"
#include "lab/report/gamma_label.h"

namespace deq::fuzz {

const size_t kSpareBytes = size_t{4} << 20;

namespace {

template <class Config>
void read_as(std::string_view toml, const std::string& source,
             const std::vector<std::string>& overrides) {
  const auto config = lab::parse_config<Config>(toml, source, overrides);
  const auto written = lab::to_toml(config);
  promise(lab::to_toml(lab::parse_config<Config>(written, source)) == written,
          "a configuration reads back otherwise than it was written");
  lab::describe_gamma(config.jacobian);
}

/// A first line "#--set key=value" stands for that option of the program.
std::vector<std::string> overrides_in(std::string_view input) {
  constexpr std::string_view kMark = "#--set ";
  if (!input.starts_with(kMark)) return {};
  const auto line = input.substr(kMark.size(), input.find('\n') - kMark.size());
  return {std::string(line)};
}

}  // namespace

void read(std::string_view input) {
  // A file of this folder, so that a `base` finds nothing else.
  const auto source = (folder() / "config.toml").string();
  const auto overrides = overrides_in(input);
  const auto experiment = lab::experiment_in(input, source, overrides);
  if (experiment == "synthetic") read_as<lab::SyntheticConfig>(input, source, overrides);
  if (experiment == "vision") read_as<lab::VisionConfig>(input, source, overrides);
  if (experiment == "language") read_as<lab::LanguageConfig>(input, source, overrides);
  if (experiment == "segmentation") read_as<lab::SegmentationConfig>(input, source, overrides);
}

}  // namespace deq::fuzz
