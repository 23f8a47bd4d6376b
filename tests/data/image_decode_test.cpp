#include "deq/lab/data/images/image_decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::JpegKind;
using test::smooth_image;
using ::testing::HasSubstr;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().max().item<double>();
}

double mean_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a.to(torch::kFloat64) - b.to(torch::kFloat64)).abs().mean().item<double>();
}

class DecodeImage : public ::testing::Test {
 protected:
  torch::Tensor image_ = smooth_image(37, 51);
};

TEST_F(DecodeImage, JpegRoundTripWithinItsLoss) {
  for (const bool progressive : {false, true}) {
    const auto bytes = encode_jpeg(image_, {.progressive = progressive});
    const auto decoded = decode_image(bytes);
    EXPECT_EQ(decoded.scalar_type(), torch::kUInt8);
    ASSERT_EQ(decoded.sizes(), (std::vector<int64_t>{3, 37, 51}));
    EXPECT_LT(mean_difference(decoded, image_), 2);
    EXPECT_EQ(image_size(bytes), (ImageSize{37, 51}));
  }
}

TEST_F(DecodeImage, GreyJpegHasThreeEqualChannels) {
  const auto grey = image_.narrow(0, 0, 1);
  const auto decoded = decode_image(encode_jpeg(grey, {.kind = JpegKind::Grey}));
  EXPECT_LT(mean_difference(decoded, grey.expand_as(decoded)), 2);
  EXPECT_TRUE(decoded[0].equal(decoded[1]));
  EXPECT_TRUE(decoded[0].equal(decoded[2]));
}

TEST_F(DecodeImage, InksAreConverted) {
  const auto black = smooth_image(37, 51, 3).narrow(0, 0, 1).div(4, "floor");
  const auto light = (255 - image_.to(torch::kFloat32)) * (255 - black) / 255;
  const auto inks = torch::cat({image_, black});
  EXPECT_LT(mean_difference(decode_image(encode_jpeg(inks, {.kind = JpegKind::Cmyk})), light), 2);
  // Adobe's programs store the light that an ink leaves.
  for (const auto kind : {JpegKind::AdobeCmyk, JpegKind::AdobeYcck}) {
    const auto decoded = decode_image(encode_jpeg(255 - inks, {.kind = kind}));
    EXPECT_LT(mean_difference(decoded, light), 3);
  }
}

TEST_F(DecodeImage, AJpegCanBeDecodedSmaller) {
  const auto image = smooth_image(160, 240);
  const auto bytes = encode_jpeg(image);
  for (const int64_t shrink : {2, 4, 8}) {
    const auto decoded = decode_image(bytes, {.shrink = shrink});
    ASSERT_EQ(decoded.sizes(), (std::vector<int64_t>{3, 160 / shrink, 240 / shrink}));
    const auto expected = torch::avg_pool2d(image.to(torch::kFloat32), shrink);
    EXPECT_LT(mean_difference(decoded, expected), 2) << shrink;
  }
  EXPECT_EQ(decode_image(encode_png(image), {.shrink = 8}).size(1), 160);
}

TEST_F(DecodeImage, PngIsExact) {
  const auto alpha = smooth_image(37, 51, 2).narrow(0, 1, 1);
  const auto grey = image_.narrow(0, 2, 1);
  const auto rgb_of_grey = grey.expand({3, 37, 51});
  for (const bool interlaced : {false, true}) {
    for (const int bits : {8, 16}) {
      const test::PngOptions options{.bits = bits, .interlaced = interlaced};
      const auto decoded = [&](const torch::Tensor& image) {
        return decode_image(encode_png(image, options));
      };
      EXPECT_TRUE(decoded(image_).equal(image_));
      EXPECT_TRUE(decoded(torch::cat({image_, alpha})).equal(image_));
      EXPECT_TRUE(decoded(grey).equal(rgb_of_grey));
      EXPECT_TRUE(decoded(torch::cat({grey, alpha})).equal(rgb_of_grey));
    }
  }
  EXPECT_EQ(image_size(encode_png(image_)), (ImageSize{37, 51}));
}

TEST_F(DecodeImage, PalettesAreLookedUp) {
  const auto indices = image_.narrow(0, 0, 1);
  const auto decoded = decode_image(encode_png(indices, {.palette = true}));
  const auto expected =
      test::smooth_palette().squeeze(1).index_select(1, indices.flatten().to(torch::kInt64));
  EXPECT_TRUE(decoded.equal(expected.view({3, 37, 51})));
}

TEST_F(DecodeImage, OnePixelIsAnImage) {
  const auto pixel = torch::tensor({200, 100, 50}, torch::kUInt8).view({3, 1, 1});
  EXPECT_TRUE(decode_image(encode_png(pixel)).equal(pixel));
  EXPECT_LT(largest_difference(decode_image(encode_jpeg(pixel)), pixel), 5);
}

TEST_F(DecodeImage, WhatIsNoImageIsRefused) {
  EXPECT_THAT([] { decode_image(""); }, ThrowsMessage<Error>(StrEq("the file is empty")));
  for (const auto* text : {"x", "\xff\xd8", "\x89PNG", "GIF89a\1\1", "<svg/>"}) {
    EXPECT_THAT([&] { decode_image(text); },
                ThrowsMessage<Error>(StrEq("it is neither JPEG nor PNG")));
    EXPECT_THROW(image_size(text), Error);
  }
}

TEST_F(DecodeImage, TooLargeAnImageIsRefusedByItsHeader) {
  const auto refused =
      ThrowsMessage<Error>(StrEq("the image is 51 × 37, must have at most 1886 pixels"));
  for (const auto& bytes : {encode_jpeg(image_), encode_png(image_)}) {
    EXPECT_THAT([&] { decode_image(bytes, {.max_pixels = 1886}); }, refused);
    EXPECT_NO_THROW(decode_image(bytes, {.max_pixels = 1887}));
  }
  auto bomb = encode_jpeg(image_);
  const auto frame = bomb.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bomb.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_THAT([&] { decode_image(bomb); },
              ThrowsMessage<Error>(HasSubstr("the image is 65500 × 65500")));
}

TEST_F(DecodeImage, OptionsAreChecked) {
  EXPECT_THAT([&] { decode_image("", {.shrink = 3}); },
              ThrowsMessage<Error>(StrEq("decode: shrink = 3, must be 1, 2, 4 or 8")));
  EXPECT_THAT([&] { decode_image("", {.max_pixels = 0}); },
              ThrowsMessage<Error>(StrEq("decode: max_pixels = 0, must be ≥ 1")));
}

}  // namespace
}  // namespace deq::lab
