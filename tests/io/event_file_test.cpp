#include "lab/io/event_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <regex>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "io/event_reader.h"
#include "io/file_size_limit.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::FileSizeLimit;
using test::message_of;
using test::ReadEvent;
using test::TemporaryFolder;
using Scalars = std::map<std::string, float>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::filesystem::path only_file(const TemporaryFolder& folder) {
  EXPECT_EQ(folder.count(), 1U);
  return std::filesystem::directory_iterator(folder.path())->path();
}

std::vector<ReadEvent> read_events(const std::filesystem::path& path) {
  const auto events = test::parse_event_file(read_file(path));
  EXPECT_TRUE(events.has_value()) << path;
  return events.value_or(std::vector<ReadEvent>());
}

double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

TEST(EventFile, HoldsWhatWasWritten) {
  const TemporaryFolder folder;
  const double before = unix_seconds();
  {
    EventFile file(folder.path());
    file.scalars(3, {{"train/loss", 0.1}, {"valid/ρ", -2.5}});
    file.scalars(std::numeric_limits<int64_t>::max(), {{"", 0.0}});
    file.scalars(-1, {{std::string(300, 't'), 1e-30}});
  }
  const auto events = read_events(only_file(folder));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 3);
  EXPECT_EQ(events[1].scalars, (Scalars{{"train/loss", 0.1F}, {"valid/ρ", -2.5F}}));
  EXPECT_EQ(events[2].step, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(events[2].scalars, (Scalars{{"", 0.0F}}));
  EXPECT_EQ(events[3].step, -1);
  EXPECT_EQ(events[3].scalars, (Scalars{{std::string(300, 't'), 1e-30F}}));
  for (const ReadEvent& event : events) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LE(event.wall_time, unix_seconds());
  }
}

TEST(EventFile, LeavesOutWhatIsNotANumber) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  file.scalars(1, {{"a", std::nan("")}, {"b", kInfinity}, {"c", 1.5}, {"d", -kInfinity}});
  file.scalars(2, {{"a", std::nan("")}, {"b", 1e300}});
  file.scalars(3, {});
  const auto events = read_events(only_file(folder));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].scalars, (Scalars{{"c", 1.5F}}));
}

TEST(EventFile, MendsATagThatIsNotUtf8) {
  const TemporaryFolder folder;
  EventFile(folder.path()).scalars(1, {{"a\xff", 1.0}});
  EXPECT_EQ(read_events(only_file(folder)).at(1).scalars, (Scalars{{"a\xef\xbf\xbd", 1.0F}}));
}

TEST(EventFile, ASessionStartsAfterItsStep) {
  const TemporaryFolder folder;
  EventFile(folder.path()).start_session(7);
  const auto events = read_events(only_file(folder));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_FALSE(events[0].starts_session);
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 8);
}

TEST(EventFile, EverySessionHasItsOwnFile) {
  const TemporaryFolder folder;
  const EventFile first(folder / "new/folder");
  const EventFile second(folder / "new/folder");
  const std::regex name(R"(events\.out\.tfevents\.\d{10,}\..+\.)" + std::to_string(::getpid()) +
                        R"(\.\d+)");
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "new/folder")) {
    EXPECT_TRUE(std::regex_match(entry.path().filename().string(), name)) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 2U);
}

TEST(EventFile, AFullDiskTearsNoEvent) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  file.scalars(1, {{"a", 1.0}});
  const auto path = only_file(folder);
  const std::string whole = read_file(path);
  std::string message;
  {
    const FileSizeLimit limit(whole.size() + 20);
    message = message_of<Error>([&] { file.scalars(2, {{std::string(100, 'x'), 1.0}}); });
  }
  EXPECT_EQ(message, "cannot write " + path.string() + ": File too large");
  EXPECT_EQ(read_file(path), whole);
  file.scalars(3, {{"a", 3.0}});
  const auto events = read_events(path);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].step, 3);
}

TEST(EventFile, SaysWhyThereIsNone) {
  const TemporaryFolder folder;
  {
    const FileSizeLimit limit(10);
    EXPECT_NE(message_of<Error>([&] { const EventFile file(folder.path()); }).find("too large"),
              std::string::npos);
  }
  EXPECT_EQ(folder.count(), 0U);
  write_file_atomically(folder / "file", "");
  EXPECT_EQ(message_of<Error>([&] { const EventFile file(folder / "file"); }),
            "cannot create " + (folder / "file").string() + ": Not a directory");
}

TEST(EventReader, DamageIsSeen) {
  const TemporaryFolder folder;
  EventFile(folder.path()).scalars(1, {{"a", 1.0}});
  const std::string bytes = read_file(only_file(folder));
  for (size_t position = 0; position < bytes.size(); ++position) {
    std::string damaged = bytes;
    damaged[position] = static_cast<char>(damaged[position] ^ 1);
    EXPECT_FALSE(test::parse_event_file(damaged).has_value()) << position;
  }
}

}  // namespace
}  // namespace deq::lab
