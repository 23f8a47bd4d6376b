#include "deq/lab/settings/vision.h"
#include "config/source_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "deq/lab/base/errors.h"
#include "deq/lab/settings/files.h"

namespace deq::lab {
namespace {

VisionConfig parse_vision(const std::string& lines,
                          const std::vector<std::string>& overrides = {}) {
  return parse_config<VisionConfig>("experiment = \"vision\"\n" + lines, "x.toml", overrides);
}

TEST(VisionConfig, EveryFileOfTheProjectIsRead) {
  int files = 0;
  for (const char* folder : {"configs/paper", "configs/small", "configs/gpu", "configs/cifar10"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kSource / folder)) {
      if (experiment_of(entry.path()) != "vision") continue;
      const auto text = to_toml(load_config<VisionConfig>(entry.path()));
      EXPECT_EQ(to_toml(parse_config<VisionConfig>(text, "effective")), text) << entry.path();
      ++files;
    }
  }
  EXPECT_GE(files, 30);
}

TEST(VisionConfig, ReadsEveryKindOfModel) {
  const auto mdeq =
      parse_vision("[data]\npath = \"x\"\n[model]\nchannels = [8, 16, 24]\ngroups = 4\n");
  EXPECT_EQ(std::get<models::MdeqOptions>(mdeq.model).channels, (std::vector<int64_t>{8, 16, 24}));
  const auto resnet =
      parse_vision("[data]\npath = \"x\"\n[model]\nname = \"resnet\"\ndepth = \"50\"\n");
  EXPECT_EQ(std::get<ResNetModel>(resnet.model).depth, ResNetDepth::Layers50);
  const auto densenet =
      parse_vision("[data]\npath = \"x\"\n", {"model.name=densenet", "model.stem=imagenet"});
  EXPECT_EQ(std::get<DenseNetModel>(densenet.model).stem, models::Stem::ImageNet);
  const auto inception =
      parse_vision("[data]\npath = \"x\"\n[model]\nname = \"inception\"\nstem = \"imagenet\"\n",
                   {"model.classes=1000"});
  EXPECT_EQ(std::get<InceptionModel>(inception.model).stem, models::Stem::ImageNet);
  EXPECT_EQ(std::get<InceptionModel>(inception.model).classes, 1000);
  const auto monotone =
      parse_vision("[data]\npath = \"x\"\n[model]\nname = \"monotone\"\nalpha = 0.25\n",
                   {"model.splitting=forward-backward"});
  EXPECT_EQ(std::get<models::MonotoneOptions>(monotone.model).alpha, 0.25);
  EXPECT_EQ(std::get<models::MonotoneOptions>(monotone.model).splitting,
            models::Splitting::ForwardBackward);
}

TEST(VisionConfig, APathIsNeededAndMayHoldAnything) {
  const auto message = [](const std::string& lines) {
    try {
      parse_vision(lines);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message("[data]\naugment = false\n"),
            "x.toml:2: missing key \"data.path\", which must be a text that is not empty");
  EXPECT_EQ(message("[data]\npath = \"\"\n"),
            "x.toml:3: data.path = \"\": must be a text that is not empty");
  EXPECT_EQ(message("[data]\npath = 3\n"),
            "x.toml:3: data.path = 3: must be a text that is not empty");
  auto config = parse_vision("[data]\npath = \"x\"\n");
  config.data.path = "a \"quoted\" \\ folder\twith\n\x01 everything é";
  EXPECT_EQ(parse_config<VisionConfig>(to_toml(config), "effective").data.path, config.data.path);
}

}  // namespace
}  // namespace deq::lab
