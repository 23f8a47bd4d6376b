#include "deq/config/vision.h"

#include "config/describe_vision.h"
#include "config/load.h"

namespace deq {

VisionConfig::VisionConfig() {
  solver = {.forward = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 7},
            .adjoint = Broyden{.tol = {.rtol = 1e-4}, .max_evals = 8}};
  jacobian.gamma = {.shape = ConstantSchedule{.value = 0.5}};
  jacobian.probability = {.shape = ConstantSchedule{.value = 0.05}};
  train.epochs = 200;
  train.batch_size = 96;
  train.lr = 1e-3;
}

VisionConfig load_vision(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides) {
  return parse_vision(config::read_config_file(path.string()), path.string(), overrides);
}

VisionConfig parse_vision(std::string_view toml, const std::string& source,
                          const std::vector<std::string>& overrides) {
  return config::load<VisionConfig>(config::parse_document(toml, source, overrides));
}

std::string to_toml(const VisionConfig& config) {
  return config::write(config);
}

}  // namespace deq
