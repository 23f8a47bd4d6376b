#include "deq/lab/io/run_folder.h"

#include <gtest/gtest.h>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::message_of;
using test::TemporaryFolder;

TEST(RunFolder, MakesParentsAndTakesAnEmptyFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(create_run_folder(folder / "a/b/c"), folder / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  EXPECT_EQ(create_run_folder(folder / "a/b/c"), folder / "a/b/c");
}

TEST(RunFolder, NeverOverwrites) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "mine");
  const std::string start = "cannot use " + folder.path().string();
  EXPECT_EQ(message_of<Error>([&] { create_run_folder(folder.path()); }),
            start + " as a run folder: it already holds files, which are never overwritten");
  EXPECT_EQ(message_of<Error>([&] { create_run_folder(folder / "file"); }),
            start + "/file as a run folder: it exists and is not a folder");
  EXPECT_EQ(message_of<Error>([&] { create_run_folder(folder / "file/run"); }),
            "cannot create " + folder.path().string() + "/file/run: Not a directory");
}

}  // namespace
}  // namespace deq::lab
