#include <gtest/gtest.h>

#include <fstream>

#include "deq/lab/base/errors.h"
#include "deq/lab/settings/files.h"
#include "deq/lab/settings/vision.h"
#include "io/temporary_folder.h"

// A configuration that builds on another.

namespace deq::lab {
namespace {

class BaseFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::string message(const std::filesystem::path& path) const {
    try {
      load_config<VisionConfig>(path);
    } catch (const ConfigError& error) {
      return std::string(error.what()).substr(folder_.path().string().size() + 1);
    }
    return "";
  }

  test::TemporaryFolder folder_;
};

constexpr auto kCommon = R"(
experiment = "vision"
seed = 3
[data]
path = "pictures"
[model]
name = "mdeq"
channels = [8, 16]
head_channels = [4, 8]
groups = 4
[solver.forward]
name = "anderson"
beta = 0.5
max_evals = 9
[jacobian]
gamma = { schedule = "staircase", start = 2.0, increment = 0.1, every = 50 }
)";

TEST_F(BaseFile, GivesWhatIsNotSaid) {
  write("common.toml", kCommon);
  write("middle.toml", "base = \"common.toml\"\nseed = 4\n[solver.forward]\nmax_evals = 5\n");
  const auto config = load_config<VisionConfig>(
      write("sub/leaf.toml", "base = \"../middle.toml\"\n[train]\nepochs = 2\n"),
      {"train.batch_size=7"});
  EXPECT_EQ(config.seed, 4);
  EXPECT_EQ(config.train.epochs, 2);
  EXPECT_EQ(config.train.batch_size, 7);
  EXPECT_EQ(config.data.path, "pictures");
  EXPECT_EQ(std::get<models::MdeqOptions>(config.model).channels, (std::vector<int64_t>{8, 16}));
  const auto& anderson = std::get<Anderson>(config.solver.forward);
  EXPECT_EQ(anderson.beta, 0.5);
  EXPECT_EQ(anderson.max_evals, 5);
  EXPECT_EQ(experiment_of(folder_ / "sub/leaf.toml"), "vision");
}

TEST_F(BaseFile, AnotherMethodReplacesTheTable) {
  write("common.toml", kCommon);
  const auto config = load_config<VisionConfig>(write(
      "leaf.toml",
      "base = \"common.toml\"\n[solver.forward]\nname = \"broyden\"\nmemory = 3\n[model]\nname = "
      "\"resnet\"\n[jacobian]\ngamma = { schedule = \"constant\", value = 0.25 }\n"));
  EXPECT_EQ(std::get<Broyden>(config.solver.forward).memory, 3);
  EXPECT_TRUE(std::holds_alternative<ResNetModel>(config.model));
  EXPECT_EQ(std::get<ConstantSchedule>(config.jacobian.gamma.shape).value, 0.25);
}

TEST_F(BaseFile, MistakesNameTheFileTheyAreIn) {
  write("common.toml", std::string(kCommon) + "[data2]\npath = \"x\"\n");
  EXPECT_EQ(message(write("a.toml", "base = 3\n")),
            "a.toml:1: base = 3: must be the path of a file");
  const auto missing = message(write("b.toml", "\nbase = \"none.toml\"\n"));
  EXPECT_TRUE(missing.starts_with("b.toml:2: base = \"none.toml\": cannot read ")) << missing;
  const auto inherited = message(write("c.toml", "base = \"common.toml\"\n"));
  EXPECT_TRUE(inherited.starts_with("common.toml:")) << inherited;
  EXPECT_NE(inherited.find("unknown key \"data2\""), std::string::npos) << inherited;
  write("e.toml", "base = \"d.toml\"\n");
  EXPECT_EQ(message(write("d.toml", "base = \"e.toml\"\n")),
            "e.toml:1: base = \"d.toml\": leads back to itself");
}

}  // namespace
}  // namespace deq::lab
