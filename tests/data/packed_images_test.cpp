#include "deq/lab/data/images/packed_images.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/batches/loader.h"
#include "deq/lab/data/images/image_folder.h"
#include "deq/lab/io/atomic_file.h"
#include "deq/lab/io/safetensors.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;
using test::encode_jpeg;
using test::encode_png;
using test::put_file;
using test::smooth_image;
using ::testing::HasSubstr;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

class Packed : public test::Seeded {
 protected:
  Packed() {
    for (int64_t i = 0; i < 8; ++i) {
      put_file(root_ / "sky" / fmt::format("s{}.jpg", i), encode_jpeg(smooth_image(40, 36, i)));
      put_file(root_ / "ground" / fmt::format("g{}.png", i), encode_png(smooth_image(34, 40, i)));
    }
  }

  /// Overwrites one byte of a file in place.
  static void spoil(const fs::path& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(offset);
    file.put(byte);
  }

  test::TemporaryFolder folder_;
  fs::path root_ = folder_ / "set", out_ = folder_ / "packed/here";
};

TEST_F(Packed, IsTheSameSet) {
  const ImageFolder set(root_);
  const auto report = pack_images(set, out_, {.shard_bytes = 6000});
  EXPECT_EQ(report.images, 16);
  EXPECT_GT(report.shards, 2);
  EXPECT_TRUE(report.skipped.empty());
  const PackedImages packed(out_);
  ASSERT_EQ(packed.size(), 16);
  EXPECT_EQ(packed.classes(), set.classes());
  int64_t bytes = 0;
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(packed.name(i), set.name(i));
    EXPECT_EQ(packed.label(i), set.label(i));
    EXPECT_EQ(packed.encoded(i), set.encoded(i));
    EXPECT_TRUE(packed.get(i, 5)[0].equal(set.get(i, 5)[0]));
    bytes += static_cast<int64_t>(packed.encoded(i).size());
  }
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(packed.describe(8), "sky/s0.jpg in " + out_.string());
}

TEST_F(Packed, FilesAreAsManyAsTheyMustBe) {
  const ImageFolder set(root_);
  const auto files = [&](const fs::path& out) {
    return std::distance(fs::directory_iterator(out), fs::directory_iterator());
  };
  EXPECT_EQ(pack_images(set, out_).shards, 1);
  EXPECT_EQ(files(out_), 2);
  EXPECT_EQ(pack_images(set, folder_ / "each", {.shard_bytes = 1}).shards, 16);
  EXPECT_EQ(files(folder_ / "each"), 17);
  EXPECT_EQ(PackedImages(folder_ / "each").encoded(15), set.encoded(15));
}

TEST_F(Packed, WorkersReadAtOnce) {
  pack_images(ImageFolder(root_), out_, {.shard_bytes = 6000});
  const auto packed = std::make_shared<PackedImages>(out_);
  const Shard shard{.batch_size = 4, .seed = test::seed()};
  Loader alone(std::make_shared<DatasetBatches>(packed, shard));
  Loader several(std::make_shared<DatasetBatches>(packed, shard), {.workers = 3, .prefetch = 6});
  for (int i = 0; i < 12; ++i) {
    EXPECT_TRUE(alone.next().tensors[0].equal(several.next().tensors[0])) << i;
  }
}

TEST_F(Packed, ASetIsNotOverwritten) {
  const ImageFolder set(root_);
  pack_images(set, out_);
  EXPECT_THAT([&] { pack_images(set, out_); },
              ThrowsMessage<UsageError>(
                  StrEq(out_.string() + " holds a packed set already, must be another folder")));
}

TEST_F(Packed, AnInterruptedPackingCanBeStartedAgain) {
  put_file(root_ / "sky" / "zz.jpg", "broken");
  EXPECT_THAT([&] { pack_images(ImageFolder(root_), out_, {.shard_bytes = 6000}); },
              ThrowsMessage<Error>(StrEq((root_ / "sky/zz.jpg").string() +
                                         " cannot be read: it is neither JPEG nor PNG")));
  EXPECT_THROW(PackedImages{out_}, Error);
  fs::remove(root_ / "sky" / "zz.jpg");
  EXPECT_EQ(pack_images(ImageFolder(root_), out_, {.shard_bytes = 6000}).images, 16);
  EXPECT_EQ(PackedImages(out_).size(), 16);
}

TEST_F(Packed, UnreadableImagesCanBeLeftOut) {
  put_file(root_ / "ground" / "broken.png", "broken");
  fs::create_symlink("nowhere", root_ / "sky" / "dangling.jpg");
  const auto report = pack_images(ImageFolder(root_), out_, {.on_unreadable = OnUnreadable::Skip});
  EXPECT_EQ(report.images, 16);
  ASSERT_EQ(report.skipped.size(), 2U);
  EXPECT_EQ(report.skipped[0].name, "ground/broken.png");
  EXPECT_EQ(report.skipped[1].name, "sky/dangling.jpg");
  EXPECT_EQ(pack_images(ImageFolder(root_), folder_ / "as they are",
                        {.on_unreadable = OnUnreadable::Skip, .decode = false})
                .images,
            17);
}

TEST_F(Packed, ADamagedImageIsNamed) {
  pack_images(ImageFolder(root_), out_);
  const auto packed = std::make_shared<PackedImages>(out_);
  const auto first = static_cast<int64_t>(packed->encoded(0).size());
  spoil(out_ / "images-00000.bin", first + 40);
  EXPECT_NO_THROW(packed->get(0, 0));
  EXPECT_NO_THROW(packed->get(2, 0));
  const DatasetBatches batches(packed, {.batch_size = 16, .shuffle = false});
  EXPECT_THAT([&] { batches.batch(0, 0); },
              ThrowsMessage<Error>(StrEq("ground/g1.png in " + out_.string() +
                                         " cannot be read: its bytes do not match their "
                                         "checksum")));
  const auto summary = summarise(*packed);
  ASSERT_EQ(summary.unreadable.size(), 1U);
  EXPECT_EQ(summary.unreadable[0].name, "ground/g1.png");
}

TEST_F(Packed, MissingAndShortenedFilesAreNamed) {
  pack_images(ImageFolder(root_), out_);
  const auto file = out_ / "images-00000.bin";
  const auto size = fs::file_size(file);
  const PackedImages open(out_);
  fs::resize_file(file, size - 1);
  EXPECT_THAT(
      [&] { PackedImages{out_}; },
      ThrowsMessage<Error>(StrEq(fmt::format("{} has {} bytes, must be the {} that the index says",
                                             file.string(), size - 1, size))));
  EXPECT_THAT([&] { open.encoded(15); }, ThrowsMessage<Error>(HasSubstr("before the image does")));
  fs::remove(file);
  EXPECT_THAT(
      [&] { PackedImages{out_}; },
      ThrowsMessage<Error>(StrEq("cannot read " + file.string() + ": No such file or directory")));
}

TEST_F(Packed, ADamagedIndexIsRefused) {
  pack_images(ImageFolder(root_), out_);
  const auto path = out_ / "index.safetensors";
  const auto bytes = read_file(path);
  for (size_t byte = 0; byte < bytes.size(); byte += 7) {
    auto damaged = bytes;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
    put_file(path, damaged);
    EXPECT_THROW(PackedImages{out_}, Error) << byte;
  }
  for (size_t length = 0; length < bytes.size(); length += 13) {
    put_file(path, bytes.substr(0, length));
    EXPECT_THROW(PackedImages{out_}, Error) << length;
  }
  write_safetensors(path, {.tensors = {{"label", torch::zeros({2})}}, .metadata = {}});
  EXPECT_THAT([&] { PackedImages{out_}; },
              ThrowsMessage<Error>(StrEq(path.string() + " is no usable index of packed images: "
                                                         "its metadata does not name the format")));
}

TEST_F(Packed, OptionsAreChecked) {
  EXPECT_THAT([&] { pack_images(ImageFolder(root_), out_, {.shard_bytes = 0}); },
              ThrowsMessage<Error>(StrEq("pack: shard_bytes = 0, must be ≥ 1")));
}

}  // namespace
}  // namespace deq::lab
