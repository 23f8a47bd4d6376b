#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/safetensors.h"
#include "io/temporary_folder.h"
#include "lab/train/memory.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using test::message_of;
using test::TemporaryFolder;

// A sanitizer adds memory of its own to everything that is allocated.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kMeasurable = false;
#else
constexpr bool kMeasurable = true;
#endif

std::string with_header(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + header + data;
}

class SafetensorsCorruption : public ::testing::Test {
 protected:
  // Not write_file_atomically: thousands of waits for the disk.
  void put(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  /// What reading these bytes complains about, without the path.
  std::string complaint(const std::string& bytes) {
    put(bytes);
    const std::string start = path_.string() + " is not a usable safetensors file: ";
    const std::string message = message_of<Error>([&] { read_safetensors(path_); });
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(std::min(start.size(), message.size()));
  }

  /// Reads, or throws an Error of one line; anything else ends the test program.
  bool loads(const std::string& bytes) {
    put(bytes);
    try {
      read_safetensors(path_);
      return true;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return false;
    }
  }

  std::string small_file() {
    write_safetensors(path_, {.tensors = {{"b", torch::ones({2, 1}, torch::kBool)},
                                          {"f", torch::ones({2}, torch::kFloat32)},
                                          {"n", torch::zeros({0, 3})}},
                              .metadata = {{"k", "v"}}});
    return read_file(path_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

TEST_F(SafetensorsCorruption, SaysWhatIsWrong) {
  EXPECT_EQ(complaint(""), "it has 0 bytes, too few for a header");
  EXPECT_EQ(complaint(std::string("\x09\0\0\0\0\0\0\0{}", 10)),
            "its header should have 9 bytes, but only 2 follow");
  EXPECT_EQ(complaint(std::string(9, '\xff')),
            "its header should have 18446744073709551615 bytes, but only 1 follow");
  EXPECT_EQ(complaint(with_header("{", "")), "its header is not valid JSON");
  EXPECT_EQ(complaint(with_header("", "")), "its header is not valid JSON");
  EXPECT_EQ(complaint(with_header("[]", "")), "its header is not a JSON object");
  EXPECT_EQ(complaint(with_header(R"({"a":{"shape":[[]]}})", "")),
            "its header is nested too deeply");
  EXPECT_EQ(complaint(with_header("{}", "abc")), "3 bytes at its end belong to no tensor");
  EXPECT_EQ(complaint(with_header(R"({"a":1})", "")), "tensor \"a\" is not described by an object");
  EXPECT_EQ(complaint(with_header(R"({"__metadata__":[]})", "")), "__metadata__ is not an object");
  EXPECT_EQ(complaint(with_header(R"({"__metadata__":{"a":1}})", "")),
            "__metadata__ \"a\" is not a string");
}

TEST_F(SafetensorsCorruption, SaysWhatIsWrongWithATensor) {
  const auto tensor = [this](const std::string& fields, const std::string& data = "12345678") {
    return complaint(with_header("{\"a\":{" + fields + "}}", data));
  };
  EXPECT_EQ(tensor(R"("shape":[2],"data_offsets":[0,8])"), "tensor \"a\" has no valid dtype");
  EXPECT_EQ(tensor(R"("dtype":"F8","shape":[2],"data_offsets":[0,8])"),
            "tensor \"a\" has the unknown type \"F8\"");
  EXPECT_EQ(tensor(R"("dtype":"F32","data_offsets":[0,8])"), "tensor \"a\" has no valid shape");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[2])"), "tensor \"a\" has no valid data_offsets");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
            "tensor \"a\" has a size or offset that is not a whole number ≥ 0");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
            "tensor \"a\" has a size or offset that is not a whole number ≥ 0");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"),
            "tensor \"a\" has 3 data_offsets, not 2");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"),
            "tensor \"a\" has the absurd size 18446744073709551615");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
            "tensor \"a\" has an absurd shape");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0])"),
            "tensor \"a\" has an absurd shape");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
            "tensor \"a\" needs 12 bytes, but its data_offsets are [0, 8]");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
            "tensor \"a\" needs 8 bytes, but its data_offsets are [8, 0]");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"),
            "tensor \"a\" ends at byte 12 of the data, which has 8");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
            "there is a hole before tensor \"a\"");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"),
            "4 bytes at its end belong to no tensor");
  EXPECT_EQ(tensor(R"("dtype":"BOOL","shape":[8],"data_offsets":[0,8])"),
            "tensor \"a\" is BOOL and holds bytes other than 0 and 1");
  EXPECT_EQ(tensor(R"("dtype":"F32","dtype":"I32","shape":[2],"data_offsets":[0,8])"),
            "the header names \"dtype\" twice");
}

TEST_F(SafetensorsCorruption, RefusesOverlapsAndDuplicates) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  const std::string b = R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]})";
  EXPECT_EQ(complaint(with_header("{" + a + "," + b + "}", "123456")),
            "tensor \"b\" overlaps another");
  EXPECT_EQ(complaint(with_header("{" + a + "," + a + "}", "1234")),
            "the header names \"a\" twice");
}

TEST_F(SafetensorsCorruption, SurvivesDeepNesting) {
  EXPECT_FALSE(loads(with_header(std::string(100'000, '['), "")));
  EXPECT_FALSE(loads(
      with_header("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", "")));
}

TEST_F(SafetensorsCorruption, AHeaderTakesTimeAndMemoryLikeItsLength) {
  // 100,000 tensors: seconds, not minutes.
  std::string many;
  for (int i = 0; i < 100'000; ++i) {
    many += (i == 0 ? "{\"layers." : ",\"layers.") + std::to_string(i) +
            R"(.weight":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  const auto bytes = with_header(many + "}", "");
  const bool measured = kMeasurable && reset_peak_memory(torch::kCPU);
  const double before = peak_memory_mib(torch::kCPU);
  EXPECT_TRUE(loads(bytes));
  const double mib = static_cast<double>(bytes.size()) / (1 << 20);
  const double taken = peak_memory_mib(torch::kCPU) - before;
  EXPECT_TRUE(!measured || taken < 10 * mib) << taken << " MiB for " << mib;
  std::string zeros = "0";
  for (int i = 0; i < 100'000; ++i) zeros += ",0";
  EXPECT_EQ(complaint(with_header("{\"a\":[" + zeros + "]}", "")),
            "tensor \"a\" has more than 64 dimensions");
}

TEST_F(SafetensorsCorruption, EveryTruncationIsRefused) {
  const std::string bytes = small_file();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(loads(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(loads(bytes + '\0'));
}

TEST_F(SafetensorsCorruption, NoByteFlipCrashes) {
  const std::string bytes = small_file();
  for (size_t position = 0; position < bytes.size(); ++position) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[position] = static_cast<char>(flipped[position] ^ (1 << bit));
      loads(flipped);
    }
  }
}

TEST_F(SafetensorsCorruption, NoRandomDamageCrashes) {
  const uint64_t seed = test::seed();
  SCOPED_TRACE(::testing::Message() << "DEQ_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  const std::string bytes = small_file();
  const std::string alphabet = "{}[]\",:0123456789-.eE\\untf F\xff";
  for (int trial = 0; trial < 500; ++trial) {
    std::string damaged = bytes;
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t position = random() % damaged.size();
      const char replacement = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          damaged[position] = replacement;
          break;
        case 1:
          damaged.insert(position, 1, replacement);
          break;
        default:
          damaged.erase(position, 1 + random() % 3);
      }
    }
    loads(damaged);
  }
}

TEST_F(SafetensorsCorruption, NamesAMissingFile) {
  EXPECT_EQ(message_of<Error>([&] { read_safetensors(path_); }),
            "cannot read " + path_.string() + ": No such file or directory");
  EXPECT_EQ(message_of<Error>([&] { read_safetensors(folder_.path()); }),
            "cannot read " + folder_.path().string() + ": Is a directory");
}

}  // namespace
}  // namespace deq::lab
