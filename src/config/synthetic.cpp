#include "deq/config/synthetic.h"

#include "config/describe_synthetic.h"
#include "config/load.h"

namespace deq {

SyntheticConfig::SyntheticConfig() {
  solver = {.forward = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 6},
            .adjoint = Broyden{.tol = {.rtol = 1e-4}, .max_evals = 6}};
  jacobian.gamma = {.shape = ConstantSchedule{.value = 1.0}};
  jacobian.probability = {.shape = ConstantSchedule{.value = 0.4}};
  train.epochs = 50;
  train.batch_size = 64;
  train.lr = 1e-3;
  train.eval_every = 10;
}

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
