#include "deq/config/language.h"

#include "config/describe_language.h"
#include "config/load.h"

namespace deq {

LanguageConfig::LanguageConfig() {
  solver = {.forward = Anderson{.tol = {.rtol = 1e-3}, .max_evals = 12},
            .adjoint = Broyden{.tol = {.rtol = 1e-4}, .max_evals = 12}};
  jacobian.gamma = {.shape = StaircaseSchedule{.start = 1.6, .increment = 0.1, .every = 35'000}};
  jacobian.probability = {.shape = ConstantSchedule{.value = 0.35}};
  train.epochs = 23;
  train.batch_size = 60;
  train.lr = 2.5e-4;
  train.clip_norm = 0.25;
}

LanguageConfig load_language(const std::filesystem::path& path,
                             const std::vector<std::string>& overrides) {
  return parse_language(config::read_config_file(path.string()), path.string(), overrides);
}

LanguageConfig parse_language(std::string_view toml, const std::string& source,
                              const std::vector<std::string>& overrides) {
  return config::load<LanguageConfig>(config::parse_document(toml, source, overrides));
}

std::string to_toml(const LanguageConfig& config) {
  return config::write(config);
}

}  // namespace deq
