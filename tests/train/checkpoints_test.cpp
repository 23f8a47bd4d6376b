#include "deq/lab/runs/checkpoints.h"

#include <gtest/gtest.h>

#include <fstream>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/checkpoint_file.h"
#include "io/file_size_limit.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

TensorFile content(int64_t step) {
  return {.tensors = {{"w", torch::full({64}, static_cast<double>(step))}}, .metadata = {}};
}

double weight(const TensorFile& file) {
  return file.tensors.at("w")[0].item<double>();
}

void no_warning(const std::string& why) {
  ADD_FAILURE() << why;
}

class CheckpointsTest : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "c")) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  test::TemporaryFolder folder_;
  Checkpoints checkpoints_{folder_.path() / "c", 2};
};

TEST_F(CheckpointsTest, KeepsTheLastAndTheBest) {
  EXPECT_FALSE(checkpoints_.newest(no_warning));
  for (const int64_t step : {0, 5, 900, 1000, 20000}) {
    checkpoints_.save(step, content(step));
    if (step == 5) checkpoints_.mark_best(5);
  }
  EXPECT_EQ(names(), (std::vector<std::string>{"best.safetensors", "step-000001000.safetensors",
                                               "step-000020000.safetensors"}));
  EXPECT_EQ(weight(checkpoints_.newest(no_warning)->file), 20000);
  EXPECT_EQ(weight(read_checkpoint_file(checkpoints_.best())), 5);
  checkpoints_.mark_best(1000);
  EXPECT_EQ(weight(read_checkpoint_file(checkpoints_.best())), 1000);
}

TEST_F(CheckpointsTest, TheNewestWholeOneIsUsed) {
  checkpoints_.save(1, content(1));
  checkpoints_.save(2, content(2));
  const auto newest = checkpoints_.file_of(2);
  const auto whole = read_file(newest);
  for (const std::string& damaged : {whole.substr(0, whole.size() / 2), std::string(),
                                     std::string(100, '\xff'), std::string("not a checkpoint")}) {
    write_file_atomically(newest, damaged);
    int warnings = 0;
    const auto found = checkpoints_.newest([&](const std::string& why) {
      ++warnings;
      EXPECT_NE(why.find(newest.string()), std::string::npos) << why;
    });
    EXPECT_EQ(warnings, 1);
    EXPECT_EQ(weight(found->file), 1);
  }
}

TEST_F(CheckpointsTest, FilesOfOthersAreLeftAlone) {
  checkpoints_.save(1, content(1));
  for (const char* name : {"step-abc.safetensors", "step-3.txt", "notes", "step-.safetensors"}) {
    std::ofstream(folder_.path() / "c" / name) << "mine";
  }
  checkpoints_.save(2, content(2));
  checkpoints_.save(3, content(3));
  EXPECT_EQ(names().size(), 4U + 2U);
  EXPECT_EQ(weight(checkpoints_.newest(no_warning)->file), 3);
}

TEST_F(CheckpointsTest, AFullDiskLeavesTheOldOnesWhole) {
  checkpoints_.save(1, content(1));
  checkpoints_.save(2, content(2));
  {
    const test::FileSizeLimit limit(100);
    EXPECT_THROW(checkpoints_.save(3, content(3)), Error);
  }
  EXPECT_EQ(weight(checkpoints_.newest(no_warning)->file), 2);
  EXPECT_EQ(names().size(), 2U);
}

}  // namespace
}  // namespace deq::lab
