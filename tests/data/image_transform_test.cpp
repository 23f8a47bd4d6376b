#include "deq/lab/data/images/image_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/data/images/image_decode.h"
#include "kernels/probes/philox.h"
#include "lab/base/keyed_numbers.h"
#include "lab/data/images/image_window.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::smooth_image;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

torch::Tensor channel_values(const std::array<double, 3>& values) {
  return torch::tensor({values[0], values[1], values[2]}, torch::kFloat32).view({3, 1, 1});
}

/// The plain formula.
torch::Tensor normalised(const torch::Tensor& image, const ImageTransform& transform) {
  return (image.to(torch::kFloat32) / 255 - channel_values(transform.mean)) /
         channel_values(transform.deviation);
}

class Transforms : public test::Seeded {
 protected:
  uint64_t key(int64_t i) { return random_key(test::seed(), 7, static_cast<uint64_t>(i)); }
  torch::Tensor random_image(int64_t height, int64_t width) {
    return torch::randint(0, 256, {3, height, width}, generator_, torch::kUInt8);
  }
};

TEST_F(Transforms, TheNormalisationIsExact) {
  auto image = torch::arange(256, torch::kUInt8).view({1, 16, 16}).repeat({3, 1, 1});
  for (auto transform : {cifar_evaluation(), imagenet_evaluation()}) {
    transform.size = 16;
    transform.crop = CentreCrop{};
    EXPECT_TRUE(transform_image(image, transform, 0).equal(normalised(image, transform)));
  }
}

TEST_F(Transforms, LayoutsDoNotMatter) {
  const auto image = random_image(40, 48);
  const auto channels_last = image.permute({1, 2, 0}).contiguous().permute({2, 0, 1});
  auto resizing = imagenet_training();
  resizing.size = 20;
  for (const auto& transform : {cifar_training(), cifar_evaluation(), resizing}) {
    EXPECT_TRUE(transform_image(image, transform, key(1))
                    .allclose(transform_image(channels_last, transform, key(1)), 0, 0.02));
  }
  EXPECT_TRUE(transform_image(image, cifar_training(), key(1))
                  .equal(transform_image(channels_last, cifar_training(), key(1))));
}

TEST_F(Transforms, PaddedCropsAreTorchsPaddingAndSlices) {
  const auto image = random_image(32, 32);
  const auto transform = cifar_training();
  const auto padded = normalised(torch::constant_pad_nd(image, {4, 4, 4, 4}, 0), transform);
  for (int64_t i = 0; i < 50; ++i) {
    const auto window = draw_window(transform, {32, 32}, key(i));
    auto expected =
        padded.narrow(1, window.top + 4, 32).narrow(2, window.left + 4, 32).contiguous();
    if (window.mirrored) expected = expected.flip(2);
    EXPECT_TRUE(transform_image(image, transform, key(i)).equal(expected)) << i;
  }
}

TEST_F(Transforms, APaddingLargerThanTheImage) {
  const auto image = random_image(2, 3);
  const auto check = [&](Margin margin, const auto& pad) {
    const ImageTransform transform{.size = 9, .crop = PaddedCrop{.padding = 10, .margin = margin}};
    const auto padded = pad(transform);
    for (int64_t i = 0; i < 50; ++i) {
      const auto window = draw_window(transform, {2, 3}, key(i));
      auto expected = padded.narrow(1, window.top + 10, 9).narrow(2, window.left + 10, 9);
      if (window.mirrored) expected = expected.flip(2);
      EXPECT_TRUE(transform_image(image, transform, key(i)).equal(expected.contiguous())) << i;
    }
  };
  check(Margin::Black, [&](const ImageTransform& transform) {
    return normalised(torch::constant_pad_nd(image, {10, 10, 10, 10}, 0), transform);
  });
  // Padding behind the normalisation is padding with the mean.
  check(Margin::Mean, [&](const ImageTransform& transform) {
    return torch::constant_pad_nd(normalised(image, transform), {10, 10, 10, 10}, 0);
  });
}

TEST_F(Transforms, EveryPaddedWindowIsEquallyLikely) {
  constexpr int64_t kDraws = 81 * 500;
  auto counts = torch::zeros({2, 9, 9}, torch::kInt64);
  auto count = counts.accessor<int64_t, 3>();
  for (int64_t i = 0; i < kDraws; ++i) {
    const auto window = draw_window(cifar_training(), {32, 32}, key(i));
    ++count[window.mirrored ? 1 : 0][window.top + 4][window.left + 4];
  }
  // χ² of 161 degrees of freedom: mean 161, standard deviation 18.
  const auto expected = static_cast<double>(kDraws) / 162;
  const auto statistic =
      ((counts.to(torch::kFloat64) - expected).square() / expected).sum().item<double>();
  EXPECT_LT(statistic, 161 + 6 * 18);
  EXPECT_GT(statistic, 161 - 6 * 18);
}

// The middle of the hole is drawn over the whole image; beyond the edges there is nothing to erase.
TEST_F(Transforms, AnErasedSquareIsTheMeanColour) {
  auto resized = imagenet_training();
  resized.size = 32;
  const auto image = random_image(40, 32);
  for (auto transform : {cifar_training(), resized}) {
    const auto plain = transform;
    transform.erased = 7;
    auto middles = torch::zeros({2, 32}, torch::kInt64);
    for (int64_t i = 0; i < 200; ++i) {
      const auto hole = draw_window(transform, {40, 32}, key(i)).hole;
      auto expected = transform_image(image, plain, key(i));
      for (int64_t y = 0; y < 32; ++y) {
        for (int64_t x = 0; x < 32; ++x) {
          if (y >= hole.top && y < hole.top + 7 && x >= hole.left && x < hole.left + 7) {
            expected.select(1, y).select(1, x).zero_();
          }
        }
      }
      EXPECT_TRUE(transform_image(image, transform, key(i)).equal(expected)) << i;
      middles[0][hole.top + 3] += 1;
      middles[1][hole.left + 3] += 1;
    }
    EXPECT_GT((middles > 0).sum().item<int64_t>(), 55);  // of 64; that one is never drawn: 0.2%
  }
  const auto encoded = encode_jpeg(smooth_image(200, 200));
  resized.erased = 32;
  const auto hole = draw_window(resized, {200, 200}, key(0)).hole;
  const auto out = transform_encoded(encoded, resized, key(0));
  EXPECT_EQ(
      out[0][std::clamp<int64_t>(hole.top + 16, 0, 31)][std::clamp<int64_t>(hole.left + 16, 0, 31)]
          .item<float>(),
      0);
}

TEST_F(Transforms, WithoutFlipNothingIsMirrored) {
  auto transform = cifar_training();
  transform.flip = false;
  for (int64_t i = 0; i < 100; ++i) {
    auto with = draw_window(cifar_training(), {32, 32}, key(i));
    with.mirrored = false;
    EXPECT_EQ(draw_window(transform, {32, 32}, key(i)), with);
  }
}

TEST_F(Transforms, ResizedCropsKeepToTheirAreaAndShape) {
  const auto transform = imagenet_training();
  const ImageSize size{375, 500};
  double mean_area = 0, mirrored = 0, mean_log_ratio = 0;
  constexpr int64_t kDraws = 4000;
  for (int64_t i = 0; i < kDraws; ++i) {
    const auto window = draw_window(transform, size, key(i));
    ASSERT_GE(window.top, 0);
    ASSERT_GE(window.left, 0);
    ASSERT_LE(window.top + window.height, size.height);
    ASSERT_LE(window.left + window.width, size.width);
    const auto height = static_cast<double>(window.height);
    const auto width = static_cast<double>(window.width);
    const auto area = height * width / (375 * 500);
    ASSERT_GT(area, 0.078);
    ASSERT_LT(width / height, 4.0 / 3 + 0.02);
    ASSERT_GT(width / height, 3.0 / 4 - 0.02);
    mean_area += area / kDraws;
    mean_log_ratio += std::log(width / height) / kDraws;
    mirrored += window.mirrored ? 1.0 / kDraws : 0;
  }
  // Uniform on [0.08, 1] would be 0.54; high rectangles that do not fit are thrown away. The means
  // are those of torchvision's rule, simulated.
  EXPECT_NEAR(mean_area, 0.433, 0.02);
  EXPECT_NEAR(mean_log_ratio, 0.030, 0.015);
  EXPECT_NEAR(mirrored, 0.5, 0.04);
}

TEST_F(Transforms, AShapeWithoutAFittingRectangleIsCutInTheMiddle) {
  auto transform = imagenet_training();
  transform.crop = ResizedCrop{.min_area = 1, .max_area = 1};
  EXPECT_EQ((draw_window({transform}, {1000, 300}, 3).height), 400);
  const auto wide = draw_window(transform, {300, 1000}, 3);
  EXPECT_EQ(wide.width, 400);
  EXPECT_EQ(wide.left, 300);
  EXPECT_EQ(wide.top, 0);
}

TEST_F(Transforms, ResizedCropIsTheAntialiasedBilinearOne) {
  auto transform = imagenet_training();
  transform.size = 24;
  const auto image = random_image(90, 120);
  for (int64_t i = 0; i < 20; ++i) {
    const auto window = draw_window(transform, {90, 120}, key(i));
    const auto part =
        image.narrow(1, window.top, window.height).narrow(2, window.left, window.width);
    auto expected =
        at::_upsample_bilinear2d_aa(part.to(torch::kFloat32).unsqueeze(0), {24, 24}, false)
            .squeeze(0);
    if (window.mirrored) expected = expected.flip(2);
    const auto actual = transform_image(image, transform, key(i));
    // Pixels are rounded to bytes after the resizing, within it they have 7 to 15 bits.
    EXPECT_TRUE(actual.allclose(normalised(expected, transform), 0, 1.6 / 255 / 0.22)) << i;
  }
}

TEST_F(Transforms, EvaluationResizesTheShorterSideAndTakesTheMiddle) {
  const ImageTransform transform{.size = 20, .crop = CentreCrop{.shorter_side = 30}, .flip = false};
  for (const auto& [height, width, top, left] :
       {std::array<int64_t, 4>{60, 100, 5, 15}, {100, 60, 15, 5}, {61, 61, 5, 5}, {30, 33, 5, 6}}) {
    const auto image = random_image(height, width);
    const std::vector<int64_t> size{height <= width ? 30 : 30 * height / width,
                                    height <= width ? 30 * width / height : 30};
    const auto resized =
        at::_upsample_bilinear2d_aa(image.to(torch::kFloat32).unsqueeze(0), size, false).squeeze(0);
    const auto expected = normalised(resized.narrow(1, top, 20).narrow(2, left, 20), transform);
    const auto actual = transform_image(image, transform, key(0));
    EXPECT_TRUE(actual.allclose(expected, 0, 1.6 / 255 / 0.19)) << height << " " << width;
    EXPECT_TRUE(actual.equal(transform_image(image, transform, key(1))));
  }
}

TEST_F(Transforms, ThePublishedPresets) {
  const auto training = imagenet_training(), evaluation = imagenet_evaluation();
  EXPECT_EQ(transform_image(smooth_image(300, 400), training, 1).sizes(),
            (std::vector<int64_t>{3, 224, 224}));
  EXPECT_EQ(transform_image(smooth_image(100, 80), evaluation, 1).sizes(),
            (std::vector<int64_t>{3, 224, 224}));
  EXPECT_EQ(transform_image(smooth_image(32, 32), cifar_training(), 1).sizes(),
            (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(size_before_crop(evaluation, {375, 500}), (ImageSize{256, 341}));
}

TEST_F(Transforms, AnEncodedImageIsDecodedAndTransformed) {
  const auto image = smooth_image(300, 400);
  auto transform = imagenet_training();
  transform.size = 32;
  for (int64_t i = 0; i < 10; ++i) {
    const auto expected = transform_image(image, transform, key(i));
    EXPECT_TRUE(transform_encoded(encode_png(image), transform, key(i)).equal(expected));
    // A JPEG is decoded at a part of its resolution here: the same picture, not the same bits.
    const auto shrunk = transform_encoded(encode_jpeg(image), transform, key(i));
    EXPECT_LT((shrunk - expected).abs().mean().item<double>(), 0.08) << i;
  }
  const auto jpeg = encode_jpeg(image);
  EXPECT_TRUE(transform_encoded(jpeg, imagenet_evaluation(), 0)
                  .equal(transform_image(decode_image(jpeg), imagenet_evaluation(), 0)));
}

/// A run that is resumed under a later release draws what it would have drawn.
TEST_F(Transforms, NumbersOfAKeyAreThoseOfPhilox) {
  for (int64_t i = 0; i < 100; ++i) {
    KeyedNumbers numbers(key(i));
    for (uint64_t block = 0; block < 3; ++block) {
      const auto [word] = kernels::philox(key(i), block, 0);
      EXPECT_EQ(numbers.uniform(), std::ldexp(uint64_t{word[0]} << 21 | word[1] >> 11, -53));
      EXPECT_EQ(numbers.uniform(), std::ldexp(uint64_t{word[2]} << 21 | word[3] >> 11, -53));
    }
  }
}

TEST_F(Transforms, NumbersOfAKeyAreUniformAndItsOwn) {
  KeyedNumbers first(key(0)), again(key(0)), other(key(1));
  double sum = 0;
  int same = 0;
  for (int i = 0; i < 10000; ++i) {
    const auto number = first.uniform();
    EXPECT_EQ(number, again.uniform());
    same += number == other.uniform() ? 1 : 0;
    sum += number;
  }
  EXPECT_EQ(same, 0);
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

TEST_F(Transforms, MisuseIsNamed) {
  const auto complaint = [](const ImageTransform& transform) {
    try {
      validate(transform);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(complaint({.size = 0}), "transform: size = 0, must be ≥ 1");
  EXPECT_EQ(complaint({.erased = 33}),
            "transform: erased = 33, must be 0 to 32, the size of what comes out");
  EXPECT_EQ(complaint({.crop = PaddedCrop{.padding = -1}}), "transform: padding = -1, must be ≥ 0");
  EXPECT_EQ(complaint({.crop = CentreCrop{.shorter_side = 31}}),
            "transform: shorter_side = 31, must be 0 or ≥ 32, the size of what comes out");
  EXPECT_EQ(complaint({.crop = ResizedCrop{.min_area = 0}}),
            "transform: min_area = 0 and max_area = 1, must be 0 < min_area ≤ max_area ≤ 1");
  EXPECT_EQ(complaint({.crop = ResizedCrop{.min_ratio = 2, .max_ratio = 1}}),
            "transform: min_ratio = 2 and max_ratio = 1, must be 0 < min_ratio ≤ max_ratio");
  EXPECT_EQ(complaint({.deviation = {0.2, 0, 0.2}}),
            "transform: deviation = 0, must be > 0 and finite");
  EXPECT_THAT([&] { transform_image(smooth_image(31, 40), cifar_evaluation(), 0); },
              ThrowsMessage<Error>(StrEq("the image is 40 × 31, must be at least 32 × 32")));
  EXPECT_THAT([&] { transform_image(smooth_image(20, 40), cifar_training(), 0); },
              ThrowsMessage<Error>(
                  StrEq("the image is 48 × 28 with its padding, must be at least 32 × 32")));
  EXPECT_THAT(
      [&] {
        transform_image(torch::zeros({3, 4, 4}), cifar_training(), 0);
      },
      ThrowsMessage<Error>(StrEq("transform: the image is Float[3, 4, 4] on cpu, must be "
                                 "Byte[3, height, width] on cpu")));
}

}  // namespace
}  // namespace deq::lab
