#include "deq/lab/io/atomic_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "deq/core/error.h"
#include "io/file_size_limit.h"
#include "io/ordinary_user.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::FileSizeLimit;
using test::message_of;
using test::OrdinaryUser;
using test::TemporaryFolder;

TEST(AtomicFile, WritesAndReplaces) {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\n", 4);
  write_file_atomically(folder / "file", bytes);
  EXPECT_EQ(read_file(folder / "file"), bytes);
  write_file_atomically(folder / "file", "");
  EXPECT_EQ(read_file(folder / "file"), "");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, NothingAppearsBeforeTheCommit) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  {
    AtomicFile file(folder / "file");
    file.write("new");
    EXPECT_EQ(read_file(folder / "file"), "old");
  }
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  std::string message;
  {
    const FileSizeLimit limit(1000);
    message = message_of<Error>(
        [&] { write_file_atomically(folder / "file", std::string(100'000, 'x')); });
  }
  EXPECT_EQ(message, "cannot write " + (folder / "file").string() + ": File too large");
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, AReadOnlyFolderLeavesTheOldFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "old");
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  std::string message;
  {
    const OrdinaryUser user(folder.path());
    message = message_of<Error>([&] { write_file_atomically(folder / "file", "new"); });
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  EXPECT_EQ(message, "cannot write " + (folder / "file").string() + ": Permission denied");
  EXPECT_EQ(read_file(folder / "file"), "old");
  EXPECT_EQ(folder.count(), 1U);
}

TEST(AtomicFile, RefusesWhatCannotBeAFile) {
  const TemporaryFolder folder;
  const std::string name = folder.path().string();
  EXPECT_EQ(message_of<Error>([&] { write_file_atomically(folder / "no/file", "x"); }),
            "cannot write " + name + "/no/file: No such file or directory");
  EXPECT_EQ(message_of<Error>([&] { write_file_atomically(folder.path(), "x"); }),
            "cannot write " + name + ": it exists and is not a regular file");
  EXPECT_EQ(message_of<Error>([&] { write_file_atomically("/dev/null", "x"); }),
            "cannot write /dev/null: it exists and is not a regular file");
  EXPECT_EQ(message_of<Error>([&] { write_file_atomically(folder / "new/", "x"); }),
            "cannot write " + name + "/new/: it names no file");
  EXPECT_EQ(folder.count(), 0U);
}

TEST(AtomicFile, IsUsedOnce) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "file");
  file.commit();
  EXPECT_EQ(message_of<Error>([&] { file.write("x"); }),
            "cannot write " + (folder / "file").string() + ": it is already committed");
}

TEST(ReadFile, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<Error>([&] { read_file(folder / "none"); }),
            "cannot read " + (folder / "none").string() + ": No such file or directory");
  EXPECT_EQ(message_of<Error>([&] { read_file(folder.path()); }),
            "cannot read " + folder.path().string() + ": Is a directory");
}

}  // namespace
}  // namespace deq::lab
