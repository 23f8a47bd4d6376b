#include "deq/lab/io/checkpoint_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <fstream>

#include "deq/core/error.h"
#include "deq/lab/io/atomic_file.h"
#include "io/temporary_folder.h"
#include "lab/io/checksum.h"

namespace deq::lab {
namespace {

using test::message_of;
using test::TemporaryFolder;

bool same(const TensorFile& a, const TensorFile& b) {
  return a.metadata == b.metadata &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first &&
                             x.second.scalar_type() == y.second.scalar_type() &&
                             at::equal(x.second, y.second);
                    });
}

TensorFile small_file() {
  return {.tensors = {{"bool", torch::ones({2}, torch::kBool)},
                      {"float", torch::arange(2, torch::kFloat32)},
                      {"other", torch::arange(2, torch::kFloat32) + 7},
                      {"empty", torch::zeros({0, 3})},
                      {"step", torch::scalar_tensor(12, torch::kInt64)}},
          .metadata = {{"config", "a = \"b\"\n"}, {"deq_version", "1"}}};
}

class CheckpointFile : public ::testing::Test {
 protected:
  // Not write_file_atomically: thousands of waits for the disk.
  void put(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  /// Refused with an Error of one line; anything else ends the test program.
  bool is_refused(const std::string& bytes) {
    put(bytes);
    try {
      read_ = read_checkpoint_file(path_);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return true;
    }
  }

  std::string bytes_of(const TensorFile& file) {
    write_checkpoint_file(path_, file);
    return read_file(path_);
  }

  std::string complaint() {
    return message_of<Error>([&] { read_checkpoint_file(path_); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "c";
  TensorFile read_;
};

TEST_F(CheckpointFile, RoundTrips) {
  TensorFile file = small_file();
  file.metadata["config"] = std::string(65'536, 'x') + "\n\"\\\t\x01 ρ";
  write_checkpoint_file(path_, file);
  EXPECT_TRUE(same(read_checkpoint_file(path_), file));
  write_checkpoint_file(path_, {});
  EXPECT_TRUE(same(read_checkpoint_file(path_), {}));
  EXPECT_EQ(folder_.count(), 1U);
}

TEST_F(CheckpointFile, IsASafetensorsFileThatNamesItself) {
  TensorFile file = small_file();
  file.metadata["format"] = "something else";
  write_checkpoint_file(path_, file);
  const TensorFile plain = read_safetensors(path_);
  EXPECT_EQ(plain.metadata.at("format"), "deq-checkpoint");
  EXPECT_EQ(plain.metadata.at("format_version"), "1");
  EXPECT_EQ(plain.metadata.at("checksum"), content_checksum(plain));
  EXPECT_TRUE(same(read_checkpoint_file(path_), small_file()));
}

TEST_F(CheckpointFile, WritesViewsAndLeaves) {
  const torch::Tensor base = torch::arange(6, torch::kFloat32).view({2, 3});
  write_checkpoint_file(
      path_, {.tensors = {{"a", base.t()}, {"b", base.clone().requires_grad_()}}, .metadata = {}});
  const auto read = read_checkpoint_file(path_).tensors;
  EXPECT_TRUE(at::equal(read.at("a"), base.t()));
  EXPECT_TRUE(at::equal(read.at("b"), base));
}

TEST_F(CheckpointFile, SaysWhatIsWrong) {
  write_safetensors(path_, small_file());
  EXPECT_EQ(complaint(), path_.string() +
                             " is no checkpoint of deq: its metadata does not name "
                             "the format \"deq-checkpoint\"");
  TensorFile newer = small_file();
  newer.metadata["format"] = "deq-checkpoint";
  newer.metadata["format_version"] = "2";
  write_safetensors(path_, newer);
  EXPECT_EQ(complaint(), path_.string() +
                             " is a checkpoint of format version \"2\", and this "
                             "version of deq reads version \"1\"");
  TensorFile damaged = small_file();
  damaged.metadata["format"] = "deq-checkpoint";
  damaged.metadata["format_version"] = "1";
  const std::string actual = content_checksum(damaged);
  damaged.metadata["checksum"] = "00c0ffee";
  write_safetensors(path_, damaged);
  EXPECT_EQ(complaint(), path_.string() +
                             " is damaged: its checksum is \"00c0ffee\", its "
                             "content's \"" +
                             actual + "\"");
  put("not a checkpoint");
  EXPECT_EQ(complaint().substr(0, path_.string().size() + 34),
            path_.string() + " is not a usable safetensors file:");
}

TEST_F(CheckpointFile, RefusesWhatItCannotWrite) {
  EXPECT_EQ(message_of<Error>([&] {
              write_checkpoint_file(path_, {.tensors = {{"a", {}}}, .metadata = {}});
            }),
            "cannot write " + path_.string() + ": tensor \"a\" is undefined or sparse");
  EXPECT_EQ(folder_.count(), 0U);
}

TEST_F(CheckpointFile, EveryTruncationIsRefused) {
  const std::string bytes = bytes_of(small_file());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(is_refused(bytes.substr(0, size))) << size;
  }
  EXPECT_TRUE(is_refused(bytes + '\0'));
}

TEST_F(CheckpointFile, NoFlippedBitGoesUnnoticed) {
  const TensorFile file = small_file();
  const std::string bytes = bytes_of(file);
  size_t harmless = 0;
  for (size_t position = 0; position < bytes.size(); ++position) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[position] = static_cast<char>(flipped[position] ^ (1 << bit));
      if (is_refused(flipped)) continue;
      EXPECT_TRUE(same(read_, file)) << "bit " << bit << " of byte " << position;
      ++harmless;
    }
  }
  // Only a space of the header may become another white space.
  EXPECT_LE(harmless, 8U);
}

TEST_F(CheckpointFile, NoReplacedByteGoesUnnoticed) {
  const TensorFile file = small_file();
  const std::string bytes = bytes_of(file);
  for (size_t position = 0; position < bytes.size(); ++position) {
    for (const char other : {'\0', '\xff', '0', '9', ' ', '"', '}', 'f'}) {
      std::string damaged = bytes;
      damaged[position] = other;
      if (!is_refused(damaged)) {
        EXPECT_TRUE(same(read_, file)) << other << " at byte " << position;
      }
    }
  }
}

}  // namespace
}  // namespace deq::lab
