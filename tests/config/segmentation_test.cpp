#include "deq/lab/settings/segmentation.h"
#include "config/source_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "deq/lab/base/errors.h"
#include "deq/lab/settings/files.h"

namespace deq::lab {
namespace {

SegmentationConfig parse_segmentation(const std::string& lines,
                                      const std::vector<std::string>& overrides = {}) {
  return parse_config<SegmentationConfig>(
      "experiment = \"segmentation\"\n[data]\npath = \"x\"\n" + lines, "x.toml", overrides);
}

std::string segmentation_message(const std::string& lines) {
  try {
    parse_segmentation(lines);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(SegmentationConfig, EveryFileOfTheProjectIsRead) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "configs")) {
    if (entry.is_directory() || entry.path().parent_path().filename() == "reproduce") continue;
    if (experiment_of(entry.path()) != "segmentation") continue;
    const auto config = load_config<SegmentationConfig>(entry.path());
    validate(config.model);
    const auto text = to_toml(config);
    EXPECT_EQ(to_toml(parse_config<SegmentationConfig>(text, "effective")), text) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 1);
}

TEST(SegmentationConfig, TheDefaultsAreTheAuthorsForCityscapes) {
  const auto config = parse_segmentation("");
  validate(config.model);
  auto paper =
      load_config<SegmentationConfig>(kSource / "configs/paper/cityscapes-mdeq-small.toml");
  EXPECT_EQ(paper.loss.class_weights.size(), 19U);
  EXPECT_EQ(config.model.mdeq.channels, paper.model.mdeq.channels);
  EXPECT_EQ(config.model.mdeq.dropout, paper.model.mdeq.dropout);
  EXPECT_EQ(config.model.mdeq.classes, paper.model.mdeq.classes);
  EXPECT_EQ(config.data.crop_width, paper.data.crop_width);
}

TEST(SegmentationConfig, AListOfNumbersKeepsItsValues) {
  const auto config = parse_segmentation("[loss]\nclass_weights = [1, 0.1, 2.5e-3]\n");
  EXPECT_EQ(config.loss.class_weights, (std::vector<double>{1, 0.1, 2.5e-3}));
  EXPECT_EQ(parse_config<SegmentationConfig>(to_toml(config), "effective").loss.class_weights,
            config.loss.class_weights);
  EXPECT_EQ(parse_segmentation("", {"loss.class_weights=[0.5, 3]"}).loss.class_weights,
            (std::vector<double>{0.5, 3}));
  EXPECT_TRUE(parse_segmentation("[loss]\nclass_weights = []\n").loss.class_weights.empty());
  for (const char* wrong : {"[1, 0]", "[1, \"2\"]", "[1, inf]", "0.5", "[[1]]"}) {
    const auto text = segmentation_message(std::string("[loss]\nclass_weights = ") + wrong + "\n");
    EXPECT_NE(text.find("loss.class_weights"), std::string::npos) << wrong;
    EXPECT_NE(text.find("must be a list of finite numbers > 0"), std::string::npos) << text;
  }
}

TEST(SegmentationConfig, WhatIsOutOfRangeIsNamed) {
  EXPECT_EQ(segmentation_message("min_scale = 3\n"),
            "x.toml:4: data.min_scale = 3: must be at most data.max_scale = 2.0");
  EXPECT_NE(segmentation_message("[model]\nclasses = 256\n").find("model.classes = 256"),
            std::string::npos);
  EXPECT_NE(segmentation_message("[model]\nhead_channels = [8]\n").find("unknown key"),
            std::string::npos);
}

}  // namespace
}  // namespace deq::lab
