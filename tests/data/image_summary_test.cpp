#include "deq/lab/data/images/image_summary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/data/images/image_folder.h"
#include "io/temporary_folder.h"

namespace deq::lab {
namespace {

using test::encode_jpeg;
using test::encode_png;
using test::put_file;
using test::smooth_image;
using ::testing::ElementsAre;
using ::testing::Pair;

class Summary : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(Summary, MeanAndDeviationAreThoseOfAllPixels) {
  std::vector<torch::Tensor> pixels;
  for (int64_t i = 0; i < 40; ++i) {
    const auto image = smooth_image(20 + i % 3, 30 - i % 5, i);
    put_file(folder_ / fmt::format("{}{}.png", i % 2 == 0 ? "ant/" : "bee/", i), encode_png(image));
    pixels.push_back(image.reshape({3, -1}).to(torch::kFloat64) / 255);
  }
  int64_t last = 0;
  const auto summary =
      summarise(ImageFolder(folder_.path()), {.progress = [&](int64_t done, int64_t total) {
                  EXPECT_EQ(done, last + 1);
                  EXPECT_EQ(total, 40);
                  last = done;
                }});
  EXPECT_EQ(last, 40);
  const auto all = torch::cat(pixels, 1);
  for (int64_t channel = 0; channel < 3; ++channel) {
    const auto index = static_cast<size_t>(channel);
    EXPECT_NEAR(summary.mean[index], all[channel].mean().item<double>(), 1e-12);
    EXPECT_NEAR(summary.deviation[index], all[channel].std(/*unbiased=*/false).item<double>(),
                1e-12);
  }
  EXPECT_EQ(summary.examined, 40);
  EXPECT_EQ(summary.smallest, (ImageSize{20, 26}));
  EXPECT_EQ(summary.median, (ImageSize{21, 28}));
  EXPECT_EQ(summary.largest, (ImageSize{22, 30}));
}

TEST_F(Summary, APartIsSpreadEvenly) {
  for (int64_t i = 0; i < 9; ++i) {
    put_file(folder_ / fmt::format("ant/{}.png", i),
             i % 3 == 0 ? encode_png(smooth_image(4, 4, i)) : "damaged");
  }
  const ImageFolder set(folder_.path());
  const auto part = summarise(set, {.max_images = 3});
  EXPECT_EQ(part.images, 9);
  EXPECT_EQ(part.examined, 3);
  EXPECT_TRUE(part.unreadable.empty());  // 0, 3 and 6 were looked at
  EXPECT_EQ(summarise(set, {.max_images = 100}).unreadable.size(), 6U);
  EXPECT_THROW(summarise(set, {.max_images = 0}), Error);
}

TEST_F(Summary, ChannelsAreThoseOfTheFiles) {
  const auto grey = smooth_image(4, 4).narrow(0, 0, 1);
  put_file(folder_ / "a/grey.jpg", encode_jpeg(grey, {.kind = test::JpegKind::Grey}));
  put_file(folder_ / "a/grey.png", encode_png(grey));
  put_file(folder_ / "a/palette.png", encode_png(grey, {.palette = true}));
  put_file(folder_ / "a/rgb.jpg", encode_jpeg(smooth_image(4, 4)));
  put_file(folder_ / "a/rgba.png", encode_png(torch::cat({smooth_image(4, 4), grey})));
  EXPECT_THAT(summarise(ImageFolder(folder_.path())).channels,
              ElementsAre(Pair(1, 2), Pair(3, 2), Pair(4, 1)));
}

TEST_F(Summary, ImagesInMemoryAreTheSameImages) {
  for (int64_t i = 0; i < 5; ++i) {
    put_file(folder_ / fmt::format("ant/{}.png", i), encode_png(smooth_image(6, 7, i)));
    put_file(folder_ / fmt::format("bee/{}-.png", i), encode_png(smooth_image(6, 7, i + 50)));
  }
  const ImageFolder set(folder_.path());
  const auto disk = summarise(set), memory = summarise(decode_all(set));
  EXPECT_EQ(memory.mean, disk.mean);
  EXPECT_EQ(memory.deviation, disk.deviation);
  EXPECT_EQ(memory.median, disk.median);
  EXPECT_EQ(memory.images, 10);
  EXPECT_EQ(memory.classes.at(1).images, 5);
}

TEST_F(Summary, EmptyClassesAndOtherFilesAreSeen) {
  put_file(folder_ / "ant/0.png", encode_png(smooth_image(4, 4)));
  put_file(folder_ / "bee/notes.txt", "");
  put_file(folder_ / "readme.md", "");
  const ImageFolder set(folder_.path(), {}, EmptyClass::Keep);
  EXPECT_THAT(set.classes(), ElementsAre("ant", "bee"));
  EXPECT_EQ(summarise(set).classes.at(1).images, 0);
  EXPECT_THAT(passed_over_in(folder_.path()), ElementsAre("readme.md", "bee/notes.txt"));
  EXPECT_FALSE(holds_images(folder_ / "bee"));
}

}  // namespace
}  // namespace deq::lab
