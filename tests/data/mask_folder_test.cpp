#include "deq/lab/data/images/mask_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/batches/dataset_batches.h"
#include "deq/lab/data/images/mask_decode.h"
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

constexpr int64_t kMaskFolderClasses = 6;

/// Blocks of classes, some of them ignored.
torch::Tensor blocks(int64_t height, int64_t width, at::Generator generator) {
  constexpr int64_t kSide = 9;
  const auto small =
      torch::randint(kMaskFolderClasses + 1, {height / kSide + 1, width / kSide + 1}, generator);
  const auto large = small.repeat_interleave(kSide, 0).repeat_interleave(kSide, 1);
  const auto classes = torch::where(large.eq(kMaskFolderClasses), double{kIgnoredLabel}, large);
  return classes.narrow(0, 0, height).narrow(1, 0, width).to(torch::kUInt8).contiguous();
}

/// An image in which every pixel shows its class; an ignored one is white.
torch::Tensor told_by(const torch::Tensor& mask) {
  const auto value = torch::where(mask.eq(kIgnoredLabel), 255, (mask + 1) * 30).to(torch::kUInt8);
  return value.unsqueeze(0).repeat({3, 1, 1});
}

constexpr MaskTransform kPlain{
    .min_scale = 1, .max_scale = 1, .mean = {0, 0, 0}, .deviation = {1, 1, 1}};

/// What the transformed image shows; black stands for what is not in the image.
torch::Tensor told(const torch::Tensor& image) {
  const auto value = (image[0] * 255).round().to(torch::kInt64);
  const auto none = value.eq(255) | value.eq(0);
  const auto classes = torch::div(value, 30, "floor") - 1;
  return torch::where(none, kIgnoredLabel, classes).to(torch::kUInt8);
}

class Masks : public test::Seeded {
 protected:
  void put(const std::string& name, const torch::Tensor& image, const torch::Tensor& mask) {
    put_file(root_ / "images" / (name + ".png"), encode_png(image));
    put_file(root_ / "masks" / (name + ".png"), encode_png(mask.unsqueeze(0)));
  }
  auto made(int64_t classes = kMaskFolderClasses, const MaskTransform& transform = kPlain) {
    return MaskFolder(root_, classes, transform);
  }

  test::TemporaryFolder folder_;
  fs::path root_ = folder_ / "train";
};

TEST_F(Masks, AMaskIsTheNumbersInItsFile) {
  const auto mask = blocks(20, 31, generator_);
  EXPECT_TRUE(decode_mask(encode_png(mask.unsqueeze(0))).equal(mask));
  EXPECT_TRUE(decode_mask(encode_png(mask.unsqueeze(0), {.interlaced = true})).equal(mask));
  // Indices into the palette, not its colours.
  EXPECT_TRUE(decode_mask(encode_png(mask.unsqueeze(0), {.palette = true})).equal(mask));
}

TEST_F(Masks, FewerBitsAreNotStretched) {
  // The pixels 0 1 2 3 of two bits each are one byte.
  const auto row = torch::tensor({{{0b00'01'10'11, 0, 0, 0}}}, torch::kUInt8);
  EXPECT_TRUE(decode_mask(encode_png(row, {.bits = 2}))
                  .equal(torch::arange(4, torch::kUInt8).view({1, 4})));
}

TEST_F(Masks, WhatIsNoMaskIsRefused) {
  const auto message = [](const std::string& bytes) {
    return test::message_of<Error>([&] { decode_mask(bytes); });
  };
  EXPECT_EQ(message(""), "the file is empty");
  EXPECT_EQ(message(encode_jpeg(smooth_image(8, 8))), "it is no PNG, which a mask must be");
  EXPECT_EQ(message(encode_png(smooth_image(8, 8))),
            "it has 3 channels, a mask must be grey or have a palette");
  EXPECT_EQ(message(encode_png(smooth_image(8, 8).narrow(0, 0, 2))),
            "it has 2 channels, a mask must be grey or have a palette");
  EXPECT_EQ(message(encode_png(smooth_image(8, 8).narrow(0, 0, 1), {.bits = 16})),
            "it has 16 bits per pixel, a mask must have at most 8");
  const auto whole = encode_png(smooth_image(8, 8).narrow(0, 0, 1));
  EXPECT_THAT(message(whole.substr(0, whole.size() - 15)), HasSubstr("the PNG decoder says"));
}

TEST_F(Masks, ImagesFindTheirMasksByName) {
  const auto first = blocks(12, 14, generator_), second = blocks(10, 9, generator_);
  put("b", told_by(second), second);
  put_file(root_ / "images/a.JPG", encode_jpeg(smooth_image(12, 14)));
  put_file(root_ / "masks/a.png", encode_png(first.unsqueeze(0), {.palette = true}));
  put_file(root_ / "masks/z.png", "of no image");
  put_file(root_ / "images/.hidden.png", "");
  put_file(root_ / "images/notes.txt", "");
  const auto set = made();
  ASSERT_EQ(set.size(), 2);
  EXPECT_EQ(set.describe(0), (root_ / "images/a.JPG").string());
  EXPECT_TRUE(set.decoded(0).mask.equal(first));
  EXPECT_TRUE(set.decoded(1).mask.equal(second));
  EXPECT_TRUE(set.decoded(1).image.equal(told_by(second)));
}

TEST_F(Masks, WhatIsMissingIsNamed) {
  EXPECT_THAT([&] { made(); }, ThrowsMessage<UsageError>(HasSubstr("cannot list the folder")));
  fs::create_directories(root_ / "images");
  EXPECT_THAT([&] { made(); }, ThrowsMessage<UsageError>(HasSubstr("images holds no image")));
  const auto mask = blocks(8, 8, generator_);
  put("a", told_by(mask), mask);
  put_file(root_ / "images/b.jpg", encode_jpeg(smooth_image(8, 8)));
  EXPECT_THAT([&] { made(); },
              ThrowsMessage<UsageError>(StrEq(fmt::format("{} has no mask: there is no file {}",
                                                          (root_ / "images/b.jpg").string(),
                                                          (root_ / "masks/b.png").string()))));
  put_file(root_ / "images/a.b.jpg", encode_jpeg(smooth_image(8, 8)));
  put_file(root_ / "images/a.jpg", encode_jpeg(smooth_image(8, 8)));
  put_file(root_ / "masks/a.b.png", encode_png(mask.unsqueeze(0)));
  EXPECT_THAT([&] { made(); },
              ThrowsMessage<UsageError>(HasSubstr("a.png would have the same mask")));
}

TEST_F(Masks, WhatDoesNotFitIsNamed) {
  const auto mask = blocks(8, 12, generator_);
  put("turned", told_by(mask), mask.t());
  put("spoilt", told_by(mask), mask);
  put_file(root_ / "masks/spoilt.png", encode_png(told_by(mask)));
  auto other = mask.clone();
  other[3][4] = 7;
  put("unknown", told_by(mask), other);
  const DatasetBatches batches(std::make_shared<MaskFolder>(root_, kMaskFolderClasses, kPlain),
                               {.batch_size = 1, .shuffle = false});
  const auto message = [&](int64_t index) {
    return test::message_of<Error>([&] { batches.batch(0, index); });
  };
  const auto path = [&](const std::string& name) { return (root_ / name).string(); };
  EXPECT_EQ(message(0), path("images/spoilt.png") + " cannot be read: its mask " +
                            path("masks/spoilt.png") +
                            " cannot be read: it has 3 channels, a mask must be grey or have a "
                            "palette");
  EXPECT_EQ(message(1), path("images/turned.png") + " cannot be read: its mask " +
                            path("masks/turned.png") + " is 8 × 12, must be 12 × 8 as the image");
  EXPECT_EQ(message(2), path("images/unknown.png") + " cannot be read: its mask " +
                            path("masks/unknown.png") +
                            " has a pixel of class 7, must be below 6, or 255 for pixels that do "
                            "not count");
}

TEST_F(Masks, ImageAndMaskAreCutAndMirroredAsOne) {
  const auto mask = blocks(40, 50, generator_);
  put("a", told_by(mask), mask);
  int64_t mirrored = 0, outside = 0;
  // Smaller than the image, and larger in one direction or both.
  for (const auto& [height, width] : {std::pair{16, 24}, {48, 20}, {64, 72}}) {
    auto transform = kPlain;
    transform.height = height;
    transform.width = width;
    const auto set = made(kMaskFolderClasses, transform);
    for (uint64_t key = 0; key < 12; ++key) {
      const auto sample = set.get(0, key);
      ASSERT_EQ(sample[0].sizes(), (std::vector<int64_t>{3, height, width}));
      ASSERT_EQ(sample[1].sizes(), (std::vector<int64_t>{height, width}));
      EXPECT_TRUE(told(sample[0]).equal(sample[1])) << key;
      outside += sample[0][0].eq(0).any().item<bool>() ? 1 : 0;
      auto unflipped = transform;
      unflipped.flip = false;
      const auto plain = made(kMaskFolderClasses, unflipped).get(0, key);
      const bool same = plain[1].equal(sample[1]);
      mirrored += same ? 0 : 1;
      EXPECT_TRUE(same || plain[1].flip({1}).equal(sample[1])) << key;
      EXPECT_TRUE(same || plain[0].flip({2}).equal(sample[0])) << key;
    }
  }
  EXPECT_GT(mirrored, 0);
  EXPECT_LT(mirrored, 36);
  EXPECT_GE(outside, 24);
}

TEST_F(Masks, ImageAndMaskAreScaledAsOne) {
  const auto mask = blocks(60, 80, generator_);
  put("a", told_by(mask), mask);
  auto transform = kPlain;
  transform.height = 40;
  transform.width = 56;
  transform.min_scale = 0.5;
  transform.max_scale = 2;
  const auto set = made(kMaskFolderClasses, transform);
  std::set<int64_t> differing;
  for (uint64_t key = 0; key < 20; ++key) {
    const auto sample = set.get(0, key);
    // Where all neighbours of a pixel are of its class, the scaled image shows that class, too.
    const auto wide = sample[1].to(torch::kFloat32).view({1, 1, 40, 56});
    const auto most = torch::max_pool2d(wide, 5, 1, 2), least = -torch::max_pool2d(-wide, 5, 1, 2);
    const auto inner = most.eq(least).view({40, 56});
    EXPECT_GT(inner.sum().item<int64_t>(), 200) << key;
    EXPECT_TRUE(told(sample[0]).masked_select(inner).equal(sample[1].masked_select(inner))) << key;
    EXPECT_TRUE(set.get(0, key)[0].equal(sample[0]));
    differing.insert(sample[1].sum().item<int64_t>());
  }
  EXPECT_GT(differing.size(), 10U);
}

TEST_F(Masks, WholeImagesAndTheirMiddle) {
  const auto mask = blocks(21, 30, generator_);
  put("a", told_by(mask), mask);
  auto transform = kPlain;
  transform.crop = MaskTransform::Crop::None;
  EXPECT_TRUE(made(kMaskFolderClasses, transform).get(0, 3)[1].equal(mask));
  transform.crop = MaskTransform::Crop::Centre;
  transform.height = 11;
  transform.width = 40;
  const auto sample = made(kMaskFolderClasses, transform).get(0, 3);
  EXPECT_TRUE(sample[1].narrow(1, 5, 30).equal(mask.narrow(0, 5, 11)));
  EXPECT_TRUE(sample[1].narrow(1, 0, 5).eq(kIgnoredLabel).all().item<bool>());
  EXPECT_TRUE(told(sample[0]).equal(sample[1]));
}

TEST_F(Masks, TransformsOutOfRangeAreNamed) {
  const auto refused = [](auto change) {
    return [change] {
      MaskTransform transform;
      change(transform);
      validate(transform);
    };
  };
  EXPECT_THAT(refused([](auto& t) { t.height = 0; }),
              ThrowsMessage<Error>(HasSubstr("a crop of 0 × 1024")));
  EXPECT_THAT(refused([](auto& t) { t.min_scale = 3; }),
              ThrowsMessage<Error>(HasSubstr("min_scale = 3 and max_scale = 2")));
  EXPECT_THAT(refused([](auto& t) { t.deviation[1] = 0; }),
              ThrowsMessage<Error>(HasSubstr("deviation = 0")));
  EXPECT_THAT([&] { made(256); }, ThrowsMessage<Error>(HasSubstr("classes = 256")));
}

}  // namespace
}  // namespace deq::lab
