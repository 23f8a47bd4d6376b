#include "deq/lab/data/images/image_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/batches/dataset_batches.h"
#include "deq/lab/data/batches/loader.h"
#include "deq/lab/data/images/image_decode.h"
#include "deq/lab/data/images/image_summary.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;
using test::encode_jpeg;
using test::encode_png;
using test::put_file;
using test::smooth_image;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

class Folder : public test::Seeded {
 protected:
  Folder() {
    for (int64_t i = 0; i < 6; ++i) {
      put_file(root_ / "cat" / fmt::format("{}.jpg", i), encode_jpeg(smooth_image(40, 36, i)));
      put_file(root_ / "ant" / fmt::format("{}.PNG", i), encode_png(smooth_image(33, 50, i)));
    }
    put_file(root_ / "bee" / "b.JPeG", encode_jpeg(smooth_image(34, 34, 9)));
    put_file(root_ / "bee" / "a.png", encode_png(smooth_image(34, 35, 9)));
  }

  test::TemporaryFolder folder_;
  fs::path root_ = folder_ / "set";
};

TEST_F(Folder, ClassesAndFilesComeInTheOrderOfTheirNames) {
  const ImageFolder set(root_);
  ASSERT_EQ(set.size(), 14);
  EXPECT_THAT(set.classes(), ElementsAre("ant", "bee", "cat"));
  EXPECT_EQ(set.name(0), "ant/0.PNG");
  EXPECT_EQ(set.name(6), "bee/a.png");
  EXPECT_EQ(set.name(7), "bee/b.JPeG");
  EXPECT_EQ(set.name(13), "cat/5.jpg");
  EXPECT_EQ(set.label(6), 1);
  EXPECT_EQ(set.describe(8), (root_ / "cat/0.jpg").string());
  EXPECT_TRUE(decode_image(set.encoded(3)).equal(smooth_image(33, 50, 3)));
}

TEST_F(Folder, ASampleIsTheTransformedImageAndItsLabel) {
  const ImageFolder set(root_);
  const auto sample = set.get(2, 99);
  ASSERT_EQ(sample.size(), 2U);
  EXPECT_TRUE(sample[0].equal(transform_image(smooth_image(33, 50, 2), cifar_training(), 99)));
  EXPECT_TRUE(sample[1].equal(torch::tensor(int64_t{0})));
  EXPECT_EQ(set.get(13, 0)[1].item<int64_t>(), 2);
}

TEST_F(Folder, OtherFilesAreNoImages) {
  put_file(root_ / "cat" / "notes.txt", "");
  put_file(root_ / "cat" / ".hidden.jpg", "");
  put_file(root_ / "cat" / "nested" / "x.jpg", "");
  put_file(root_ / ".cache" / "x.jpg", "");
  put_file(root_ / "labels.csv", "");
  EXPECT_EQ(ImageFolder(root_).size(), 14);
}

TEST_F(Folder, AFolderWithoutImagesIsRefused) {
  const auto path = [&](const char* name) { return (folder_ / name).string(); };
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT([&] { ImageFolder(folder_ / "empty"); },
              ThrowsMessage<UsageError>(
                  StrEq(path("empty") + " holds no folders, must hold one for each class")));
  fs::create_directories(folder_ / "set/dog");
  EXPECT_THAT([&] { ImageFolder{root_}; },
              ThrowsMessage<UsageError>(StrEq(fmt::format(
                  "the class folder {} holds no image, must hold some .jpg, .jpeg or .png",
                  path("set/dog")))));
  EXPECT_THAT([&] { ImageFolder(folder_ / "none"); },
              ThrowsMessage<UsageError>(StrEq(fmt::format(
                  "cannot list the folder {}: No such file or directory", path("none")))));
}

TEST_F(Folder, ClassesMustBeTheSame) {
  const ImageFolder set(root_);
  EXPECT_NO_THROW(require_same_classes(set, ImageFolder(root_)));
  put_file(folder_ / "two/ant/0.png", "");
  put_file(folder_ / "two/cat/0.png", "");
  const ImageFolder two(folder_ / "two");
  EXPECT_THAT(
      [&] { require_same_classes(set, two); },
      ThrowsMessage<Error>(StrEq("the first set has 3 classes, the second 2, must be the same")));
  put_file(folder_ / "two/ape/0.png", "");
  EXPECT_THAT([&] { require_same_classes(set, ImageFolder(folder_ / "two")); },
              ThrowsMessage<Error>(StrEq("class 1 is \"bee\" in the first set and \"ape\" in the "
                                         "second, must be the same")));
}

TEST_F(Folder, WorkersAndRanksSeeTheSameSamples) {
  const auto set = std::make_shared<ImageFolder>(root_);
  const Shard shard{.batch_size = 6, .seed = test::seed()};
  const auto load = [&](const Shard& part, int64_t workers) {
    Loader loader(std::make_shared<DatasetBatches>(set, part), {.workers = workers, .prefetch = 4});
    std::vector<torch::Tensor> images, labels;
    for (int64_t i = 0; i < 4 * part.parts; ++i) {
      const auto batch = loader.next();
      images.push_back(batch.tensors[0]);
      labels.push_back(batch.tensors[1]);
    }
    return std::pair{images, torch::cat(labels)};
  };
  const auto [images, labels] = load(shard, 0);
  for (const int64_t workers : {1, 3}) {
    const auto again = load(shard, workers);
    EXPECT_TRUE(torch::cat(again.first).equal(torch::cat(images)));
    EXPECT_TRUE(again.second.equal(labels));
  }
  std::vector<std::vector<torch::Tensor>> ranks;
  for (int64_t rank = 0; rank < 3; ++rank) {
    auto part = shard;
    part.rank = rank;
    part.ranks = 3;
    ranks.push_back(load(part, 2).first);
  }
  for (size_t step = 0; step < 4; ++step) {
    EXPECT_TRUE(torch::cat({ranks[0][step], ranks[1][step], ranks[2][step]}).equal(images[step]));
  }
  EXPECT_FALSE(images[0].equal(images[2])) << "another epoch is augmented anew";
}

TEST_F(Folder, UnreadableImagesAreNamed) {
  fs::create_symlink("nowhere", root_ / "bee" / "dangling.jpg");
  fs::create_directories(root_ / "bee" / "folder.png");
  put_file(root_ / "bee" / "empty.jpg", "");
  const auto bytes = encode_jpeg(smooth_image(34, 34));
  put_file(root_ / "bee" / "half.jpg", bytes.substr(0, bytes.size() / 2));
  const ImageFolder set(root_);
  ASSERT_EQ(set.size(), 18);
  const auto summary = summarise(set);
  EXPECT_EQ(summary.images, 18);
  ASSERT_EQ(summary.classes.size(), 3U);
  EXPECT_EQ(summary.classes[1].name, "bee");
  EXPECT_EQ(summary.classes[0].images, 6);
  EXPECT_EQ(summary.classes[1].images, 6);
  EXPECT_EQ(summary.smallest, (ImageSize{33, 34}));
  EXPECT_EQ(summary.largest, (ImageSize{40, 50}));
  ASSERT_EQ(summary.unreadable.size(), 4U);
  EXPECT_EQ(summary.unreadable[0].name, "bee/dangling.jpg");
  EXPECT_THAT(summary.unreadable[0].reason, HasSubstr("No such file or directory"));
  EXPECT_EQ(summary.unreadable[1].name, "bee/empty.jpg");
  EXPECT_EQ(summary.unreadable[1].reason, "the file is empty");
  EXPECT_EQ(summary.unreadable[2].name, "bee/folder.png");
  EXPECT_THAT(summary.unreadable[2].reason, HasSubstr("Is a directory"));
  EXPECT_EQ(summary.unreadable[3].name, "bee/half.jpg");
  EXPECT_THAT(summary.unreadable[3].reason, HasSubstr("Premature end"));
  EXPECT_THAT([&] { decode_all(set); },
              ThrowsMessage<Error>(::testing::ContainsRegex(" cannot be read: | is .*, must be ")));
}

TEST_F(Folder, UnreadableImagesCanBeLeftOut) {
  put_file(root_ / "bee" / "empty.jpg", "");
  const auto set = std::make_shared<ImageFolder>(root_);
  const Shard shard{.batch_size = 15, .shuffle = false};
  EXPECT_EQ(DatasetBatches(set, shard, OnUnreadable::Skip).batch(0, 0).skipped, 1);
  EXPECT_THAT([&] { DatasetBatches(set, shard).batch(0, 0); },
              ThrowsMessage<Error>(StrEq((root_ / "bee/empty.jpg").string() +
                                         " cannot be read: the file is empty")));
}

TEST_F(Folder, ImagesOfOneSizeAreTakenIntoMemory) {
  fs::remove_all(root_ / "bee");
  fs::remove_all(root_ / "cat");
  put_file(root_ / "zoo" / "z.png", encode_png(smooth_image(33, 50, 77)));
  const auto all = decode_all(ImageFolder(root_));
  EXPECT_EQ(all.images.sizes(), (std::vector<int64_t>{7, 3, 33, 50}));
  EXPECT_TRUE(all.images[4].equal(smooth_image(33, 50, 4)));
  EXPECT_TRUE(all.images[6].equal(smooth_image(33, 50, 77)));
  EXPECT_TRUE(all.labels.equal(torch::tensor({0, 0, 0, 0, 0, 0, 1}, torch::kInt64)));
  EXPECT_THAT(all.classes, ElementsAre("ant", "zoo"));
  put_file(root_ / "zoo" / "y.png", encode_png(smooth_image(33, 51)));
  EXPECT_THAT([&] { decode_all(ImageFolder(root_)); },
              ThrowsMessage<Error>(HasSubstr("zoo/y.png is 51 × 33, must be 50 × 33 as ")));
}

TEST_F(Folder, ImagesThatCannotBeReadAreLeftOutOfMemory) {
  fs::remove_all(root_ / "bee");
  fs::remove_all(root_ / "cat");
  put_file(root_ / "ant" / "0.png", "");
  put_file(root_ / "zoo" / "z.png", encode_png(smooth_image(33, 50, 77)));
  put_file(root_ / "zoo" / "zz.png", "no image");
  const ImageFolder set(root_);
  EXPECT_THAT([&] { decode_all(set); },
              ThrowsMessage<Error>(HasSubstr("ant/0.png cannot be read")));
  std::vector<UnreadableImage> left_out;
  const auto all = decode_all(set, &left_out);
  ASSERT_EQ(left_out.size(), 2U);
  EXPECT_EQ(left_out[0].name, "ant/0.png");
  EXPECT_EQ(left_out[0].reason, "the file is empty");
  EXPECT_EQ(left_out[1].name, "zoo/zz.png");
  EXPECT_EQ(all.images.sizes(), (std::vector<int64_t>{7, 3, 33, 50}));
  EXPECT_TRUE(all.images[6].equal(smooth_image(33, 50, 77)));
  EXPECT_TRUE(all.labels.equal(torch::tensor({0, 0, 0, 0, 0, 0, 1}, torch::kInt64)));
  for (const auto& entry : fs::directory_iterator(root_ / "ant")) put_file(entry.path(), "");
  fs::remove_all(root_ / "zoo");
  EXPECT_THAT([&] { decode_all(ImageFolder(root_), &left_out); },
              ThrowsMessage<Error>(HasSubstr("no image can be read; of ")));
}

}  // namespace
}  // namespace deq::lab
