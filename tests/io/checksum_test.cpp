#include "lab/io/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "deq/core/error.h"
#include "io/temporary_folder.h"
#include "lab/io/crc32c.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using test::message_of;

using Crc = uint32_t (*)(std::string_view, uint32_t);

std::vector<Crc> every_way() {
  std::vector<Crc> ways = {crc32c, io::crc32c_by_table};
  if (io::has_crc32c_instruction()) ways.push_back(io::crc32c_by_instruction);
  return ways;
}

TEST(Crc32c, HasTheKnownValues) {
  std::string rising;
  for (int byte = 0; byte < 32; ++byte) rising += static_cast<char>(byte);
  for (const Crc crc : every_way()) {
    EXPECT_EQ(crc("", 0), 0U);
    EXPECT_EQ(crc("a", 0), 0xc1d04330);
    EXPECT_EQ(crc("123456789", 0), 0xe3069283);
    // RFC 3720, appendix B.4
    EXPECT_EQ(crc(std::string(32, '\0'), 0), 0x8a9136aa);
    EXPECT_EQ(crc(std::string(32, '\xff'), 0), 0x62a8ab43);
    EXPECT_EQ(crc(rising, 0), 0x46dd794e);
    EXPECT_EQ(crc(std::string(rising.rbegin(), rising.rend()), 0), 0x113fdb5c);
  }
}

TEST(Crc32c, GoesOnFromAPreviousSum) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  for (const Crc crc : every_way()) {
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      EXPECT_EQ(crc(text.substr(cut), crc(text.substr(0, cut), 0)), crc(text, 0)) << cut;
    }
  }
}

TEST(Crc32c, TableAndInstructionAgree) {
  if (!io::has_crc32c_instruction()) GTEST_SKIP() << "no SSE4.2";
  const uint64_t seed = test::seed();
  SCOPED_TRACE(::testing::Message() << "DEQ_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::string bytes(3000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t begin = random() % bytes.size();
    const auto part = std::string_view(bytes).substr(begin, random() % bytes.size());
    const auto previous = static_cast<uint32_t>(random());
    ASSERT_EQ(io::crc32c_by_table(part, previous), io::crc32c_by_instruction(part, previous));
  }
}

TEST(ContentChecksum, SeesEveryChange) {
  const torch::Tensor four = torch::arange(4, torch::kFloat32);
  const auto of_tensor = [](const std::string& name, const torch::Tensor& tensor) {
    return content_checksum({.tensors = {{name, tensor}}, .metadata = {}});
  };
  const auto of_metadata = [](const std::map<std::string, std::string>& metadata) {
    return content_checksum({.tensors = {}, .metadata = metadata});
  };
  const std::vector<std::string> sums = {
      content_checksum({}),
      of_tensor("a", four),
      of_tensor("b", four),
      of_tensor("a", four + 1),
      of_tensor("a", four.view({2, 2})),
      of_tensor("a", four.view({1, 4})),
      of_tensor("a", four.view(torch::kInt32)),
      of_tensor("a", four.view(torch::kUInt8)),
      of_tensor("", torch::zeros({0})),
      of_tensor("", torch::zeros({0, 1})),
      of_tensor("", torch::zeros({})),
      of_metadata({{"a", "bc"}}),
      of_metadata({{"ab", "c"}}),
      of_metadata({{"a", "bc"}, {"", ""}}),
      of_metadata({{"a", "b"}, {"c", ""}}),
  };
  EXPECT_EQ(std::set<std::string>(sums.begin(), sums.end()).size(), sums.size());
  for (const std::string& sum : sums) EXPECT_EQ(sum.size(), 8U);
}

TEST(ContentChecksum, IsOfTheContentAlone) {
  const torch::Tensor matrix = torch::arange(6, torch::kFloat32).view({2, 3});
  const TensorFile file{.tensors = {{"a", matrix.t()}}, .metadata = {{"k", "v"}}};
  const TensorFile same{.tensors = {{"a", matrix.t().contiguous().requires_grad_()}},
                        .metadata = {{"k", "v"}, {"checksum", "12345678"}}};
  EXPECT_EQ(content_checksum(file), content_checksum(same));
}

// A checkpoint of today is read by the library of tomorrow.
TEST(ContentChecksum, StaysWhatItIs) {
  EXPECT_EQ(content_checksum({.tensors = {{"w", torch::arange(3, torch::kFloat32)},
                                          {"b", torch::ones({}, torch::kBool)}},
                              .metadata = {{"format", "deq-checkpoint"}}}),
            "eb745413");
}

TEST(ContentChecksum, RefusesWhatNoFileHolds) {
  EXPECT_EQ(message_of<Error>([] {
              content_checksum({.tensors = {{"a", {}}}, .metadata = {}});
            }),
            "tensor \"a\" is undefined or sparse");
}

}  // namespace
}  // namespace deq::lab
