#include "lab/io/atomic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/io/atomic_file.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(AtomicFolder, AppearsWholeOrNotAtAll) {
  const test::TemporaryFolder folder;
  {
    const AtomicFolder abandoned(folder / "out");
    write_file_atomically(abandoned.path() / "a", "1");
    EXPECT_FALSE(fs::exists(folder / "out"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  {
    AtomicFolder whole(folder / "new/out/");
    write_file_atomically(whole.path() / "a", "1");
    whole.commit();
  }
  EXPECT_EQ(read_file(folder / "new/out/a"), "1");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "new"), {}), 1);
}

TEST(AtomicFolder, LeavesNoFolderThatItMadeToHoldIt) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "old");
  { const AtomicFolder abandoned(folder / "old/new/newer/out"); }
  EXPECT_FALSE(fs::exists(folder / "old/new"));
  EXPECT_TRUE(fs::exists(folder / "old"));
  {
    const AtomicFolder abandoned(folder / "new/newer/out");
    write_file_atomically(folder / "new/of-another", "1");
  }
  EXPECT_FALSE(fs::exists(folder / "new/newer"));
  EXPECT_EQ(read_file(folder / "new/of-another"), "1");
}

TEST(AtomicFolder, NothingIsOverwritten) {
  const test::TemporaryFolder folder;
  fs::create_directories(folder / "empty");
  fs::create_symlink("nowhere", folder / "link");
  for (const char* name : {"empty", "link"}) {
    EXPECT_THAT([&] { AtomicFolder{folder / name}; },
                ThrowsMessage<UsageError>(HasSubstr("exists already")));
  }
}

}  // namespace
}  // namespace deq::lab
