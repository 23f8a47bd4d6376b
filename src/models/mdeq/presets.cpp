#include <fmt/format.h>
#include <string>
#include <utility>

#include "deq/core/error.h"
#include "deq/models/mdeq/options.h"

namespace deq::models {
namespace {

using Preset = std::pair<std::string, MdeqOptions>;

const std::vector<Preset>& presets() {
  static const std::vector<Preset> kPresets = [] {
    const MdeqOptions tiny;
    const MdeqOptions cifar{.channels = {32, 64, 128, 256},
                            .dropout = 0.3,
                            .head_channels = {14, 28, 56, 112},
                            .final_channels = 1680};
    const MdeqOptions imagenet{.channels = {32, 64, 128, 256},
                               .dropout = 0,
                               .post_norm_affine = true,
                               .downsample_times = 2,
                               .head_channels = {24, 48, 96, 192},
                               .final_channels = 2048,
                               .classes = 1000};
    auto cifar_reg = cifar;
    cifar_reg.dropout = 0.22;
    auto small_reg = imagenet;
    small_reg.dropout = 0.02;
    small_reg.post_norm_affine = false;
    small_reg.head_channels = {28, 56, 112, 224};
    auto large = imagenet;
    large.channels = {80, 160, 320, 640};
    large.head_channels = {32, 64, 128, 256};
    auto large_reg = large;
    large_reg.post_norm_affine = false;
    auto xl = large;
    xl.channels = {88, 176, 352, 704};
    xl.expansion = 6;
    return std::vector<Preset>{{"cifar-tiny", tiny},
                               {"cifar-large", cifar},
                               {"cifar-large-reg", cifar_reg},
                               {"imagenet-small", imagenet},
                               {"imagenet-small-reg", small_reg},
                               {"imagenet-large", large},
                               {"imagenet-large-reg", large_reg},
                               {"imagenet-xl", xl}};
  }();
  return kPresets;
}

}  // namespace

MdeqOptions mdeq_preset(std::string_view name) {
  std::string known;
  for (const auto& [preset_name, options] : presets()) {
    if (preset_name == name) return options;
    known += (known.empty() ? "" : ", ") + preset_name;
  }
  throw Error(fmt::format("mdeq: no preset is called {}; there are {}", name, known));
}

std::vector<std::string> mdeq_preset_names() {
  std::vector<std::string> names;
  for (const auto& preset : presets()) names.push_back(preset.first);
  return names;
}

}  // namespace deq::models
