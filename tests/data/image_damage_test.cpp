#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/data/images/image_decode.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::JpegKind;
using test::smooth_image;

std::vector<std::string> files() {
  const auto image = smooth_image(24, 31);
  return {encode_jpeg(image),
          encode_jpeg(image, {.progressive = true}),
          encode_jpeg(image.narrow(0, 0, 1), {.kind = JpegKind::Grey}),
          encode_jpeg(torch::cat({image, image.narrow(0, 0, 1)}), {.kind = JpegKind::AdobeYcck}),
          encode_png(image),
          encode_png(image, {.bits = 16, .interlaced = true}),
          encode_png(image.narrow(0, 0, 1), {.palette = true})};
}

/// The image, or an Error of one line; anything else ends the test program.
std::optional<torch::Tensor> read(const std::string& bytes) {
  try {
    // Small: what a damaged header asks for is not what is tested here.
    return decode_image(bytes, {.max_pixels = 100'000});
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    EXPECT_STRNE(error.what(), "");
    return std::nullopt;
  }
}

std::string complaint_of(const std::string& bytes) {
  return test::message_of<Error>([&] { decode_image(bytes); });
}

/// The most that was ever mapped into this process, used or not.
int64_t peak_virtual_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kib = 0;
    if (word == "VmPeak:" && status >> kib) return kib / 1024;
  }
  return 0;
}

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  return bytes;
}

class ImageDamage : public test::Seeded {
 protected:
  std::mt19937_64 numbers_{test::seed()};
  size_t below(size_t count) { return numbers_() % count; }
};

TEST_F(ImageDamage, ATruncatedFileIsNeverAnImage) {
  for (const auto& bytes : files()) {
    ASSERT_TRUE(read(bytes));
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(read(bytes.substr(0, length))) << length << " of " << bytes.size();
    }
  }
}

TEST_F(ImageDamage, FlippedBytesAreReadOrRefused) {
  int refused = 0;
  for (const auto& bytes : files()) {
    for (int round = 0; round < 400; ++round) {
      auto damaged = bytes;
      for (size_t i = 0; i <= below(4); ++i) {
        damaged[below(damaged.size())] = static_cast<char>(numbers_());
      }
      const auto image = read(damaged);
      refused += image ? 0 : 1;
      EXPECT_TRUE(!image || image->size(0) == 3);
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(ImageDamage, NoFlippedByteOfAPngsPixelsPasses) {
  const auto bytes = encode_png(smooth_image(24, 31));
  const auto data = bytes.find("IDAT");
  for (size_t byte = data + 4; byte + 12 < bytes.size(); ++byte) {
    auto damaged = bytes;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x10);
    EXPECT_FALSE(read(damaged)) << byte;
  }
}

TEST_F(ImageDamage, PartsThatAreCutOutOrDoubled) {
  for (const auto& bytes : files()) {
    for (int round = 0; round < 200; ++round) {
      const auto first = below(bytes.size()), count = below(64);
      read(bytes.substr(0, first) + bytes.substr(std::min(first + count, bytes.size())));
      read(bytes.substr(0, first) + bytes.substr(first, count) + bytes.substr(first));
    }
  }
}

TEST_F(ImageDamage, NoiseAfterASignature) {
  for (const std::string signature : {"\xff\xd8\xff", "\x89PNG\r\n\x1a\n"}) {
    for (int round = 0; round < 500; ++round) {
      auto bytes = signature;
      for (size_t i = below(300); i-- > 0;) bytes.push_back(static_cast<char>(numbers_()));
      EXPECT_FALSE(read(bytes));
    }
  }
}

TEST_F(ImageDamage, ATextThatIsSaidToBeLongTakesNoMemory) {
  constexpr size_t kAfterHeader = 8 + 4 + 4 + 13 + 4;
  const auto png = encode_png(smooth_image(3, 5));
  const auto damaged =
      png.substr(0, kAfterHeader) + big_endian(0x7000'0000) + "tEXt" + png.substr(kAfterHeader);
  const auto before = peak_virtual_mib();
  EXPECT_FALSE(read(damaged));
  EXPECT_LT(peak_virtual_mib(), before + 256);
}

TEST_F(ImageDamage, AFewBytesAreNoLargeImage) {
  auto png = encode_png(smooth_image(3, 5));
  png.replace(16, 8, big_endian(9000) + big_endian(9001));
  png.replace(29, 4, big_endian(0x29eb'3648));  // the checksum of that header
  EXPECT_EQ(complaint_of(png),
            fmt::format("the file has {} bytes, too few for an image of 9000 × 9001", png.size()));
  auto jpeg = encode_jpeg(smooth_image(3, 5));
  jpeg.replace(jpeg.find("\xff\xc0") + 5, 4, "\x23\x29\x23\x28");
  EXPECT_EQ(complaint_of(jpeg),
            fmt::format("the file has {} bytes, too few for an image of 9000 × 9001", jpeg.size()));
  // One colour packs well, and is still an image.
  const auto plain = torch::full({3, 1500, 2000}, 7, torch::kUInt8);
  EXPECT_EQ(decode_image(encode_png(plain)).max().item<int>(), 7);
  EXPECT_EQ(decode_image(encode_jpeg(plain, {.progressive = true, .quality = 20})).size(2), 2000);
}

TEST_F(ImageDamage, BytesAfterTheEndDoNotMatter) {
  for (const auto& bytes : files()) {
    const auto image = read(bytes), longer = read(bytes + "more");
    ASSERT_TRUE(image && longer);
    EXPECT_TRUE(image->equal(*longer));
  }
}

}  // namespace
}  // namespace deq::lab
