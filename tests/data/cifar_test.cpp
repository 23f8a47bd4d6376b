#include "deq/lab/data/images/cifar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/image_files.h"
#include "deq/core/error.h"
#include "deq/lab/base/errors.h"
#include "deq/lab/data/images/image_layout.h"
#include "io/temporary_folder.h"
#include "support/seed.h"

namespace deq::lab {
namespace {

namespace fs = std::filesystem;
using test::put_file;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

constexpr int64_t kImages = 7;
const std::vector<std::string> kClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};

/// A random set, of files with few images.
class Cifar : public test::Seeded {
 protected:
  Cifar() {
    std::string lines;
    for (const auto& name : kClasses) lines += name + "\n";
    put_file(files_ / "batches.meta.txt", lines + "\n");
    for (int64_t file = 0; file < 6; ++file) {
      const auto name =
          file < 5 ? fmt::format("data_batch_{}", file + 1) : std::string("test_batch");
      put_batch(name, images_.narrow(0, file * kImages, kImages),
                labels_.narrow(0, file * kImages, kImages));
    }
  }

  void put_batch(const std::string& name, const torch::Tensor& images,
                 const torch::Tensor& labels) {
    std::string bytes;
    for (int64_t i = 0; i < images.size(0); ++i) {
      const auto image = images[i].contiguous();
      bytes += static_cast<char>(labels[i].item<int64_t>());
      bytes.append(static_cast<const char*>(image.const_data_ptr()), 3072);
    }
    put_file(files_ / (name + ".bin"), bytes);
  }

  /// What is said about a file after its name.
  std::string complaint(const std::string& file) const {
    const auto start = (files_ / file).string() + " is no usable file of CIFAR-10: ";
    const auto message =
        test::message_of<Error>([&] { read_cifar10(files_, CifarPart::Training, kImages); });
    EXPECT_EQ(message.substr(0, start.size()), start);
    return message.substr(std::min(start.size(), message.size()));
  }

  test::TemporaryFolder folder_;
  fs::path files_ = folder_ / "set/cifar-10-batches-bin";
  torch::Tensor images_ =
      torch::randint(0, 256, {6 * kImages, 3, 32, 32}, generator_, torch::kUInt8);
  torch::Tensor labels_ = torch::randint(0, 10, {6 * kImages}, generator_, torch::kInt64);
};

TEST_F(Cifar, EveryImageIsRead) {
  for (const auto& folder : {files_, files_.parent_path()}) {
    const auto training = read_cifar10(folder, CifarPart::Training, kImages);
    EXPECT_TRUE(training.images.equal(images_.narrow(0, 0, 5 * kImages)));
    EXPECT_TRUE(training.labels.equal(labels_.narrow(0, 0, 5 * kImages)));
    EXPECT_EQ(training.classes, kClasses);
    const auto test = read_cifar10(folder, CifarPart::Test, kImages);
    EXPECT_TRUE(test.images.equal(images_.narrow(0, 5 * kImages, kImages)));
    EXPECT_TRUE(test.labels.equal(labels_.narrow(0, 5 * kImages, kImages)));
  }
}

TEST_F(Cifar, MissingFilesAreNamed) {
  EXPECT_FALSE(holds_cifar10(folder_.path()));
  EXPECT_THAT([&] { read_cifar10(folder_.path(), CifarPart::Test); },
              ThrowsMessage<UsageError>(
                  StrEq(folder_.path().string() +
                        " holds no CIFAR-10: there is no batches.meta.txt (the binary version)")));
  const auto missing = files_ / "data_batch_3.bin";
  fs::remove(missing);
  EXPECT_THAT([&] { read_cifar10(files_, CifarPart::Training, kImages); },
              ThrowsMessage<Error>(
                  StrEq("cannot read " + missing.string() + ": No such file or directory")));
  EXPECT_NO_THROW(read_cifar10(files_, CifarPart::Test, kImages));
}

TEST_F(Cifar, ThePythonVersionIsRefused) {
  put_file(folder_ / "p/cifar-10-batches-py/batches.meta", "\x80\2}.");
  for (const auto& folder : {folder_ / "p", folder_ / "p/cifar-10-batches-py"}) {
    const auto refusal = ThrowsMessage<UsageError>(
        StrEq(folder.string() +
              " holds the Python version of CIFAR-10, but only the binary version is read "
              "(cifar-10-binary.tar.gz)"));
    EXPECT_THAT([&] { read_cifar10(folder, CifarPart::Test); }, refusal);
    EXPECT_THAT([&] { cifar10_classes(folder); }, refusal);
    EXPECT_THAT([&] { find_images(folder); }, refusal);
  }
}

TEST_F(Cifar, WhereBothVersionsAreTheBinaryOneIsRead) {
  put_file(files_.parent_path() / "cifar-10-batches-py/batches.meta", "\x80\2}.");
  EXPECT_EQ(cifar10_classes(files_.parent_path()), kClasses);
  EXPECT_EQ(find_images(files_.parent_path()).layout, ImageLayout::Cifar10);
}

TEST_F(Cifar, WrongSizesAreNamed) {
  put_batch("data_batch_2", images_.narrow(0, 0, 6), labels_);
  EXPECT_EQ(complaint("data_batch_2.bin"), "it has 18438 bytes, must be 21511");
}

TEST_F(Cifar, LabelsOutOfRangeAreNamed) {
  labels_[2] = 10;
  put_batch("data_batch_1", images_.narrow(0, 0, kImages), labels_);
  EXPECT_EQ(complaint("data_batch_1.bin"), "the label of image 2 is 10, must be < 10");
}

TEST_F(Cifar, WrongClassesAreNamed) {
  put_file(files_ / "batches.meta.txt", "cat\r\ndog\r\n");
  EXPECT_EQ(complaint("batches.meta.txt"), "it names 2 classes, must be 10");
}

}  // namespace
}  // namespace deq::lab
