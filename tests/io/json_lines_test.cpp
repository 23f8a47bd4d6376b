#include "deq/lab/io/json_lines.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "io/file_size_limit.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::FileSizeLimit;
using test::message_of;
using test::TemporaryFolder;

constexpr double kJsonLinesInfinity = std::numeric_limits<double>::infinity();

TEST(JsonLines, WritesShortestNumbersInOrder) {
  const TemporaryFolder folder;
  JsonLines lines(folder / "metrics.jsonl");
  lines.append({{"step", int64_t{3}}, {"loss", 0.1}, {"gamma", 2.0}, {"split", "va\"lid\n"}});
  EXPECT_EQ(read_file(folder / "metrics.jsonl"),
            "{\"step\":3,\"loss\":0.1,\"gamma\":2.0,\"split\":\"va\\\"lid\\n\"}\n");
}

TEST(JsonLines, LeavesOutWhatWasNotMeasured) {
  const TemporaryFolder folder;
  JsonLines lines(folder / "metrics.jsonl");
  lines.append(
      {{"a", std::nan("")}, {"b", kJsonLinesInfinity}, {"c", 1.5}, {"d", -kJsonLinesInfinity}});
  lines.append({});
  EXPECT_EQ(read_file(folder / "metrics.jsonl"), "{\"c\":1.5}\n{}\n");
}

TEST(JsonLines, ReadsBackTheSameValues) {
  const TemporaryFolder folder;
  const std::map<std::string, MetricValue> line = {{"whole", std::numeric_limits<int64_t>::min()},
                                                   {"large", std::numeric_limits<int64_t>::max()},
                                                   {"tiny", 4.9406564584124654e-324},
                                                   {"huge", 1.7976931348623157e308},
                                                   {"third", 1.0 / 3.0},
                                                   {"even", 1e22},
                                                   {"curve", std::vector{0.5, 1e-9, 2.0}},
                                                   {"no curve", std::vector<double>{}},
                                                   {"text", "ρ"}};
  JsonLines(folder / "m").append({line.begin(), line.end()});
  const auto read = read_json_lines(folder / "m");
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0], line);
}

TEST(JsonLines, AListKeepsTheGapsOfWhatWasNotMeasured) {
  const TemporaryFolder folder;
  JsonLines(folder / "m")
      .append({{"curve", std::vector{1.5, std::nan(""), kJsonLinesInfinity, 2.0}}});
  EXPECT_EQ(read_file(folder / "m"), "{\"curve\":[1.5,null,null,2.0]}\n");
  const auto read = read_json_lines(folder / "m");
  ASSERT_EQ(read.size(), 1U);
  const auto& curve = std::get<std::vector<double>>(read[0].at("curve"));
  ASSERT_EQ(curve.size(), 4U);
  EXPECT_TRUE(std::isnan(curve[1]) && std::isnan(curve[2]));
  EXPECT_EQ(curve[3], 2.0);
}

TEST(JsonLines, GoesOnBehindWhatIsThere) {
  const TemporaryFolder folder;
  JsonLines(folder / "m").append({{"step", int64_t{1}}});
  JsonLines(folder / "m").append({{"step", int64_t{2}}});
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(JsonLines, MendsATornEnd) {
  const TemporaryFolder folder;
  const std::string line = "{\"step\":1}\n";
  for (size_t torn = 0; torn <= line.size(); ++torn) {
    write_file_atomically(folder / "m", line + line.substr(0, torn));
    const size_t whole = torn + 1 >= line.size() ? 2 : 1;  // only the newline may be missing
    EXPECT_EQ(read_json_lines(folder / "m").size(), whole) << torn;
    JsonLines(folder / "m").append({{"step", int64_t{1}}});
    EXPECT_EQ(read_file(folder / "m"), whole == 2 ? line + line + line : line + line) << torn;
  }
}

TEST(JsonLines, AFullDiskTearsNoLine) {
  const TemporaryFolder folder;
  JsonLines lines(folder / "m");
  lines.append({{"step", int64_t{1}}});
  std::string message;
  {
    const FileSizeLimit limit(20);
    message = message_of<Error>([&] { lines.append({{"text", std::string(100, 'x')}}); });
  }
  EXPECT_EQ(message, "cannot write " + (folder / "m").string() + ": File too large");
  lines.append({{"step", int64_t{2}}});
  EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(JsonLines, NamesABrokenLine) {
  const TemporaryFolder folder;
  for (const std::string broken :
       {"{\"a\":", "[1]", "{\"a\":null}", "{\"a\":{}}", "{\"a\":[1,\"b\"]}", ""}) {
    write_file_atomically(folder / "m", "{}\n" + broken + "\n{}\n");
    EXPECT_EQ(
        message_of<Error>([&] { read_json_lines(folder / "m"); }),
        (folder / "m").string() + ":2: not a JSON object of numbers, strings and lists of numbers");
  }
}

TEST(DropLinesAfter, KeepsEarlierLinesByteForByte) {
  const TemporaryFolder folder;
  const std::string kept = "{\"step\":1}\n{ \"loss\": 0.10, \"step\": 2 }\n{\"step\":-7}\n";
  write_file_atomically(folder / "m", kept + "{\"step\":3}\n{\"step\":2}\n");
  drop_lines_after(folder / "m", 2);
  EXPECT_EQ(read_file(folder / "m"), kept + "{\"step\":2}\n");
  drop_lines_after(folder / "m", -8);
  EXPECT_EQ(read_file(folder / "m"), "");
}

TEST(DropLinesAfter, DropsWhatHasNoWholeStep) {
  const TemporaryFolder folder;
  for (const std::string other : {"{}", "{\"step\":1.0}", "{\"step\":\"1\"}", "{\"loss\":1}",
                                  "{\"step\":18446744073709551615}", "{\"step\":", ""}) {
    write_file_atomically(folder / "m", "{\"step\":1}\n" + other + "\n{\"step\":2}\n");
    drop_lines_after(folder / "m", 5);
    EXPECT_EQ(read_file(folder / "m"), "{\"step\":1}\n{\"step\":2}\n") << other;
  }
}

TEST(DropLinesAfter, DropsATornEnd) {
  const TemporaryFolder folder;
  const std::string line = "{\"step\":1}\n";
  for (size_t torn = 0; torn <= line.size(); ++torn) {
    const std::string text = line + line.substr(0, torn);
    write_file_atomically(folder / "m", text);
    drop_lines_after(folder / "m", 1);
    const bool whole = torn + 1 >= line.size();  // only the newline may be missing
    EXPECT_EQ(read_file(folder / "m"), whole ? text : line) << torn;
    JsonLines(folder / "m").append({{"step", int64_t{2}}});
    EXPECT_EQ(read_json_lines(folder / "m").size(), whole ? 3U : 2U) << torn;
  }
}

TEST(DropLinesAfter, WritesOnlyWhenSomethingGoes) {
  const TemporaryFolder folder;
  const auto inode = [&] {
    struct stat status {};
    ::stat((folder / "m").c_str(), &status);
    return status.st_ino;
  };
  write_file_atomically(folder / "m", "{\"step\":1}\n{\"step\":2}\n");
  const auto before = inode();
  drop_lines_after(folder / "m", 2);
  EXPECT_EQ(inode(), before);
  drop_lines_after(folder / "m", 1);
  EXPECT_NE(inode(), before);
  EXPECT_EQ(folder.count(), 1U);
}

TEST(DropLinesAfter, LeavesAMissingFileMissing) {
  const TemporaryFolder folder;
  drop_lines_after(folder / "m", 2);
  EXPECT_EQ(folder.count(), 0U);
  EXPECT_EQ(message_of<Error>([&] { drop_lines_after(folder.path(), 2); }),
            "cannot read " + folder.path().string() + ": Is a directory");
}

}  // namespace
}  // namespace deq::lab
