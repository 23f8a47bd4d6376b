#include "deq/config/segmentation.h"

#include "config/describe_segmentation.h"
#include "config/load.h"

namespace deq {

SegmentationConfig::SegmentationConfig() {
  model.mdeq = {.channels = {32, 64, 128, 256},
                .dropout = 0.05,
                .post_norm_affine = true,
                .downsample_times = 2,
                .head_channels = {},
                .classes = 19};
  solver = {.forward = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 27},
            .adjoint = Broyden{.tol = {.rtol = 1e-3}, .max_evals = 30}};
  jacobian.gamma = {.shape = ConstantSchedule{.value = 0}};
  train.epochs = 500;
  train.batch_size = 12;
  train.lr = 0.01;
  train.optimiser = Sgd{.momentum = 0.9, .nesterov = false, .weight_decay = 2e-4};
}

SegmentationConfig load_segmentation(const std::filesystem::path& path,
                                     const std::vector<std::string>& overrides) {
  return parse_segmentation(config::read_config_file(path.string()), path.string(), overrides);
}

SegmentationConfig parse_segmentation(std::string_view toml, const std::string& source,
                                      const std::vector<std::string>& overrides) {
  return config::load<SegmentationConfig>(config::parse_document(toml, source, overrides));
}

std::string to_toml(const SegmentationConfig& config) {
  return config::write(config);
}

}  // namespace deq
